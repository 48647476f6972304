//! What each kernel of a convolution operator does: the products, and what is needed around them.
//!
//! Layouts are changed tensor by tensor in a fixed order; Winograd transforms read or write tiles of 6 × 6 for 4 × 4 results
//! and leave 36 products of matrices; scaling clears the result; tables of offsets are next to nothing [names and order as
//! cuDNN 7–9 launch them on V100, RTX 2080 Ti and H100].

use crate::units::{Bytes, Flop, elements};

use super::classify::{Caller, summed};
use super::conv_layouts::{self, Tensors};
use super::conv_spectra;
use super::kernel_name::{self, Role};
use super::operators::{self, Reading, movement_work};
use super::parts::Part;
use super::work::{Family, Shape, Work, element_bytes};

/// Bytes of tables and workspaces that are set up before a product.
const SET_UP: u64 = 4096;

/// The work of kernel `name` of a convolution operator, `whole` being that of one of its products; `None` of one beside them whose
/// name does not tell.
pub(super) fn work(whole: Work, name: &str, part: Part, caller: &Caller<'_>, reading: Reading) -> Option<Work> {
    let moved = |read, written| movement_work(Family::Movement, read, written);
    if ["computeOffsets", "OffsetsKernel", "generateWinogradTiles", "init_device_workspace"]
        .iter()
        .any(|p| name.contains(p))
    {
        return Some(moved(0, SET_UP));
    }
    let backward = caller.operator.contains("backward");
    let Some(tensors) = Tensors::of(caller, reading) else { return Some(whole) };
    if let Some(change) = kernel_name::layout_change(name) {
        return conv_layouts::changed(change, part, caller, (tensors, &whole));
    }
    if kernel_name::pads_channels(name) {
        let bytes = if part.at == 0 { tensors.input } else { tensors.weights };
        return Some(moved(bytes, bytes));
    }
    if name.contains("scalePackedTensor") {
        return Some(moved(0, if backward { tensors.input } else { tensors.output }));
    }
    if name.contains("flip_filter") {
        return Some(moved(tensors.weights, tensors.weights));
    }
    if let Some(work) =
        winograd(&whole, name, backward, tensors).or_else(|| conv_spectra::work(&whole, name, part, backward))
    {
        return Some(work);
    }
    Some(match kernel_name::role(name, Family::Conv) {
        Role::SplitReduction => summed(&split_pass(whole, name, caller, reading)),
        Role::Layout if kernel_name::unfolds(name) => moved(tensors.input, unfolded(&whole)),
        Role::Layout => moved(whole.written.0, whole.written.0),
        _ if part.beside => return None,
        _ => product(whole, name, part, caller, reading),
    })
}

/// The work of a convolution operator that computes every pass it was asked for, `whole` being that of the first.
pub(super) fn all_passes(whole: Work, caller: &Caller<'_>, reading: Reading) -> Work {
    let Some(operands) = caller.operands else { return whole };
    let passes = operators::conv_passes(operators::bare(caller.operator), operands);
    let others = passes.into_iter().skip(1);
    let work = |pass| operators::conv_pass_work(caller.operator, operands, pass, reading);
    others.filter_map(work).fold(whole, |all, one| Work {
        flop: Flop(all.flop.0 + one.flop.0),
        read: all.read + one.read,
        written: all.written + one.written,
        ..all
    })
}

/// Side of a Winograd tile's result, and its points.
pub(super) const WINOGRAD_TILE: u64 = 4;
const POINTS: u64 = 36;

/// Transforms of Winograd's algorithm that are kernels of their own.
fn winograd(whole: &Work, name: &str, backward: bool, tensors: Tensors) -> Option<Work> {
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, .. } = &whole.shape else { return None };
    let rest = name.split("winograd_nonfused::winograd").nth(1)?;
    let element = element_bytes(whole);
    let tiles = elements(&[batch, out_h.div_ceil(WINOGRAD_TILE), out_w.div_ceil(WINOGRAD_TILE), POINTS, element]);
    let (tiles_in, tiles_out) = (tiles.saturating_mul(channels_in), tiles.saturating_mul(channels_out));
    let filters = elements(&[channels_in, channels_out, POINTS, element]);
    let Tensors { input, weights, output } = tensors;
    let (read, written) = match rest {
        // The gradient of the input is a convolution of the output's.
        _ if rest.starts_with("ForwardData") && backward => (output, tiles_out),
        _ if rest.starts_with("ForwardOutput") && backward => (tiles_in, input),
        _ if rest.starts_with("ForwardData") || rest.starts_with("WgradData") => (input, tiles_in),
        _ if rest.starts_with("ForwardOutput") => (tiles_out, output),
        _ if rest.starts_with("ForwardFilter") => (weights, filters),
        _ if rest.starts_with("WgradDelta") => (output, tiles_out),
        _ if rest.starts_with("WgradOutput") => (filters, weights),
        _ => return None,
    };
    Some(movement_work(Family::Movement, read, written))
}

/// Bytes of the input unfolded into a matrix with a column for each output.
fn unfolded(whole: &Work) -> u64 {
    let &Shape::Conv { batch, channels_in, out_h, out_w, r, s, .. } = &whole.shape else { return whole.written.0 };
    elements(&[batch, channels_in, r, s, out_h, out_w, element_bytes(whole)])
}

/// One of the products: a plain matrix product for 3 × 3 filters is the middle of Winograd's algorithm.
fn product(whole: Work, name: &str, part: Part, caller: &Caller<'_>, reading: Reading) -> Work {
    if kernel_name::is_weight_gradient(name) && part.at > 0 {
        return movement_work(Family::Reduction, 2 * SET_UP, SET_UP);
    }
    if let Some(work) = tile_products(&whole, name) {
        return work;
    }
    of_pass(whole, name, caller, reading)
}

/// The pass that `name` says, of an operator of several.
fn of_pass(whole: Work, name: &str, caller: &Caller<'_>, reading: Reading) -> Work {
    let pass = caller.operator.contains("backward").then(|| kernel_name::conv_pass(name)).flatten();
    let again = |pass| operators::conv_pass_work(caller.operator, caller.operands?, pass, reading);
    pass.and_then(again).unwrap_or(whole)
}

/// The pass whose parts `name` adds up: where it does not say, of several that of the smallest result, whose reduction is the longest.
fn split_pass(whole: Work, name: &str, caller: &Caller<'_>, reading: Reading) -> Work {
    let Some(operands) = caller.operands.filter(|_| kernel_name::conv_pass(name).is_none()) else {
        return of_pass(whole, name, caller, reading);
    };
    let passes = operators::conv_passes(operators::bare(caller.operator), operands).into_iter();
    let work = |pass| operators::conv_pass_work(caller.operator, operands, pass, reading);
    passes.filter_map(work).min_by_key(|work| work.written).unwrap_or(whole)
}

fn tile_products(whole: &Work, name: &str) -> Option<Work> {
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, .. } = &whole.shape else {
        return None;
    };
    // Of AMD's libraries, products of 3 × 3 filters are of unfolded images.
    let is_plain = kernel_name::kernel_family(name) == Some(Family::Gemm) && !name.starts_with("Cijk_");
    if !is_plain || (r, s, stride, groups) != (3, 3, 1, 1) {
        return None;
    }
    let m = elements(&[batch, out_h.div_ceil(WINOGRAD_TILE), out_w.div_ceil(WINOGRAD_TILE)]);
    let (n, k) = (channels_out, channels_in);
    let bytes = |a: u64, b: u64| Bytes(elements(&[POINTS, element_bytes(whole), a, b]));
    Some(Work {
        family: Family::Gemm,
        flop: Flop(2.0 * POINTS as f64 * m as f64 * n as f64 * k as f64),
        read: bytes(m.saturating_add(n), k),
        written: bytes(m, n),
        precision: whole.precision,
        shape: Shape::Gemm { batch: POINTS, m, n, k },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::operands;

    /// 8 images of 64 × 16 × 16, 32 filters of 3 × 3.
    fn kernel(operator: &str, name: &str, at: u32, of: u32) -> Work {
        let mut args = if operator.contains("backward") {
            operands(&[&[8, 32, 16, 16], &[8, 64, 16, 16], &[32, 64, 3, 3]])
        } else {
            operands(&[&[8, 64, 16, 16], &[32, 64, 3, 3]])
        };
        args.inputs.extend(["", "[1, 1]", "[1, 1]", "[1, 1]", "1"].map(operators::tests::value));
        let whole = operators::operator_work(operator, &args, Reading::default()).unwrap();
        let caller = Caller { operator, operands: Some(&args) };
        work(whole, name, Part { at, of, beside: false }, &caller, Reading::default()).unwrap()
    }

    const INPUT: u64 = 8 * 64 * 256 * 4;
    const WEIGHTS: u64 = 32 * 64 * 9 * 4;
    const OUTPUT: u64 = 8 * 32 * 256 * 4;

    #[test]
    fn layouts_are_changed_tensor_by_tensor() {
        let last = "void cudnn::ops::nchwToNhwcKernel<float>";
        let read = |operator, name, at, of| kernel(operator, name, at, of).read.0;
        let backward = "aten::convolution_backward";
        assert_eq!([0, 1].map(|at| read("aten::conv2d", last, at, 2)), [INPUT, WEIGHTS]);
        assert_eq!([0, 1, 2, 3].map(|at| read(backward, last, at, 4)), [WEIGHTS, OUTPUT, INPUT, OUTPUT]);
        let first = "void cudnn::ops::nhwcToNchwKernel<float>";
        assert_eq!([0, 1].map(|at| read(backward, first, at, 2)), [INPUT, WEIGHTS]);
        assert_eq!([0, 1].map(|at| read(backward, last, at, 2)), [INPUT, OUTPUT], "of the weights' gradient alone");
        assert_eq!(read(backward, first, 0, 1), WEIGHTS);
    }

    #[test]
    fn an_operator_on_a_host_computes_both_gradients() {
        fn flop(operator: &str, args: &crate::graph::Operands) -> f64 {
            let launch = crate::cost::Launch {
                kind: crate::graph::TaskKind::Compute,
                name: operator,
                bytes: Bytes(0),
                ranks: 0,
                phase: crate::graph::Phase::Backward,
            };
            crate::cost::work_of(&launch, &[Caller { operator, operands: Some(args) }], None).unwrap().flop.0
        }
        let args = operands(&[&[8, 32, 16, 16], &[8, 64, 16, 16], &[32, 64, 3, 3]]);
        let forward = flop("aten::conv2d", &operands(&[&[8, 64, 16, 16], &[32, 64, 3, 3]]));
        assert!((flop("aten::convolution_backward", &args) / forward - 2.0).abs() < 1e-9);
        let mut masked = args.clone();
        masked.inputs.push(operators::tests::value("[False, True, True]"));
        assert!((flop("aten::convolution_backward", &masked) / forward - 1.0).abs() < 1e-9);
    }

    #[test]
    fn winograd_transforms_move_tiles_and_leave_products() {
        let name = "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>";
        let data = kernel("aten::conv2d", name, 0, 1);
        // 8 · 4 · 4 tiles of 36 points for each of 64 channels.
        assert_eq!((data.read.0, data.written.0), (INPUT, 8 * 16 * 36 * 64 * 4));
        let product = kernel("aten::conv2d", "volta_sgemm_64x64_nn", 0, 1);
        assert_eq!(product.shape, Shape::Gemm { batch: 36, m: 128, n: 32, k: 64 });
        assert!((product.flop.0 * 4.0 - 2.0 * 8.0 * 32.0 * 256.0 * 64.0 * 9.0).abs() < 1.0);
    }

    #[test]
    fn parts_of_a_split_weight_gradient_are_as_large_as_the_weights() {
        let name = "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_execute_split_k_kernel_cudnn_train";
        let sum = kernel("aten::convolution_backward", name, 1, 2);
        assert_eq!((sum.family, sum.read.0, sum.written.0), (Family::Reduction, 2 * WEIGHTS, WEIGHTS));
    }

    #[test]
    fn parts_that_do_not_say_of_which_pass_they_are_are_of_the_smallest_result() {
        for name in [
            "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::reduction::kernel::ReduceSplitK<>>",
            "void cublasLt::splitKreduce_kernel<32, 16, int, float>",
        ] {
            let sum = kernel("aten::convolution_backward", name, 0, 1);
            assert_eq!((sum.family, sum.written.0), (Family::Reduction, WEIGHTS), "{name}");
        }
        let sum = kernel("aten::conv2d", "void cublasLt::splitKreduce_kernel<32, 16, int, float>", 0, 1);
        assert_eq!(sum.written.0, OUTPUT);
    }

    #[test]
    fn a_mangled_name_computes_though_its_parts_change_layouts() {
        let name = "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS4_52Conv2dWgradOutputGradient\
                    TileAccessIteratorOptimizedINS_9transform29PitchLinearWarpRakedThreadMapINS";
        let product = kernel("aten::convolution_backward", name, 0, 1);
        assert!(product.flop.0 > 0.0 && product.written.0 == WEIGHTS);
    }

    #[test]
    fn channels_are_padded_tensor_by_tensor() {
        let name = "void nhwcAddPaddingKernel<__nv_bfloat16, __nv_bfloat16, float, true, (cudnnKernelDataType_t)0>";
        for operator in ["aten::conv2d", "aten::convolution_backward"] {
            let padded = [0, 1].map(|at| kernel(operator, name, at, 2));
            assert!(padded.iter().all(|work| work.family == Family::Movement && work.flop.0 == 0.0));
            assert_eq!(padded.map(|work| work.written.0), [INPUT, WEIGHTS]);
        }
    }

    #[test]
    fn kernels_beside_the_products_compute_nothing() {
        let flip = kernel("aten::conv2d", "void flip_filter<float, float>(float*, float const*)", 0, 1);
        assert_eq!((flip.flop.0, flip.read.0, flip.written.0), (0.0, WEIGHTS, WEIGHTS));
        let args = operands(&[&[8, 64, 16, 16], &[32, 64, 3, 3]]);
        let whole = operators::operator_work("aten::conv2d", &args, Reading::default()).unwrap();
        let caller = Caller { operator: "aten::conv2d", operands: Some(&args) };
        let beside = Part { at: 0, of: 1, beside: true };
        let other = |part| work(whole.clone(), "void anything<float>(float*)", part, &caller, Reading::default());
        assert!(other(beside).is_none() && other(Part::default()).is_some_and(|work| work.flop.0 > 0.0));
    }

    #[test]
    fn an_image_is_unfolded_without_arithmetic() {
        for name in ["Im2d2Col_v2", "void im2col_kernel<float>"] {
            let unfolding = kernel("aten::conv2d", name, 0, 1);
            let found = (unfolding.family, unfolding.flop.0, unfolding.read.0, unfolding.written.0);
            assert_eq!(found, (Family::Movement, 0.0, INPUT, 9 * INPUT), "{name}");
        }
    }

    #[test]
    fn tables_of_offsets_are_next_to_nothing_and_scaling_clears_the_result() {
        let offsets =
            kernel("aten::conv2d", "cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)", 0, 1);
        assert!(offsets.flop.0 == 0.0 && offsets.bytes().0 == SET_UP);
        let scaled =
            kernel("aten::convolution_backward", "void cudnn::ops::scalePackedTensor_kernel<float, float>", 0, 1);
        assert_eq!((scaled.read.0, scaled.written.0), (0, INPUT));
    }
}
