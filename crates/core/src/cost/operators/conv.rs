//! FLOP and bytes of convolutions, forward and backward.

use std::borrow::Cow;

use crate::cost::conv_choice::ChosenAlgorithm;
use crate::cost::work::{Family, Shape, Work, element_bytes};
use crate::graph::{ConvArguments, DType};
use crate::units::{Bytes, Flop};

use super::args::{Args, elements};
use super::gemm::gemm_precision;

/// A convolution of `[batch, channels_in, in_h, in_w]` with `[channels_out, channels_in/groups, r, s]`.
/// One-dimensional ones have height 1; the depth of three-dimensional ones is part of the heights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvSize {
    /// Images.
    pub batch: u64,
    /// Input channels.
    pub channels_in: u64,
    /// Output channels.
    pub channels_out: u64,
    /// Input height × width.
    pub in_area: u64,
    /// Output height.
    pub out_h: u64,
    /// Output width.
    pub out_w: u64,
    /// Filter height.
    pub r: u64,
    /// Filter width.
    pub s: u64,
    /// Larger of the strides.
    pub stride: u64,
    /// Groups.
    pub groups: u64,
}

/// Which of the three products of a convolution layer a kernel computes; all have the same arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvPass {
    /// Input and weight → output.
    Forward,
    /// Output gradient and weight → input gradient.
    InputGradient,
    /// Output gradient and input → weight gradient.
    WeightGradient,
}

/// `2·N·K·(C/g)·R·S·P·Q`: direct convolution, a multiply-accumulate being two [Kakrannava §IV].
pub fn conv_flop(size: &ConvSize) -> Flop {
    let per_output = (size.channels_in / size.groups.max(1)).max(1) as f64 * size.r as f64 * size.s as f64;
    Flop(2.0 * output_elements(size) as f64 * per_output)
}

/// Bytes read and written by one pass, each tensor once.
pub(crate) fn conv_bytes(size: &ConvSize, pass: ConvPass, element: u64) -> (Bytes, Bytes) {
    let tensor = |dims: &[u64]| Bytes(elements(dims).saturating_mul(element));
    let input = tensor(&[size.batch, size.channels_in, size.in_area]);
    let weight = tensor(&[size.channels_out, (size.channels_in / size.groups.max(1)).max(1), size.r, size.s]);
    let output = tensor(&[output_elements(size)]);
    match pass {
        ConvPass::Forward => (input + weight, output),
        ConvPass::InputGradient => (output + weight, input),
        ConvPass::WeightGradient => (output + input, weight),
    }
}

fn output_elements(size: &ConvSize) -> u64 {
    elements(&[size.batch, size.channels_out, size.out_h, size.out_w])
}

/// The work of one pass of a convolution of `dtype`.
pub fn conv_work(size: &ConvSize, pass: ConvPass, dtype: DType, tf32: bool) -> Work {
    let (read, written) = conv_bytes(size, pass, dtype.size());
    let &ConvSize { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, .. } = size;
    Work {
        family: Family::Conv,
        flop: conv_flop(size),
        read,
        written,
        precision: gemm_precision(dtype, tf32),
        shape: Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, algorithm: None }
            .possible(),
    }
}

/// The convolution `work`, any pass of it, with `times` the images; anything else as it is.
pub(crate) fn with_images(work: &Work, times: u64) -> Work {
    let mut more = work.clone();
    let (Some(weight), Shape::Conv { batch, .. }) = (weight_bytes(work), &mut more.shape) else { return more };
    *batch = batch.saturating_mul(times);
    let of_images = |bytes: u64| Bytes(bytes.saturating_mul(times));
    (more.read, more.written) = if work.written.0 == weight {
        (of_images(work.read.0), work.written)
    } else {
        (of_images(work.read.0.saturating_sub(weight)) + Bytes(weight), of_images(work.written.0))
    };
    more.flop = Flop(work.flop.0 * times as f64);
    more
}

/// The convolution `work` as the product that matrix units compute it by: its filters with the patches of its images, which are read
/// where they lie. As it is where it is none, or its sizes are too large to be counted.
pub(crate) fn product(work: &Work) -> Cow<'_, Work> {
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, groups, .. } = &work.shape else {
        return Cow::Borrowed(work);
    };
    let groups = groups.max(1);
    let (outputs, taps) = (elements(&[batch, out_h, out_w]), elements(&[r, s]));
    let (from, to) = ((channels_in / groups).max(1), (channels_out / groups).max(1));
    let is_of_weight = weight_bytes(work) == Some(work.written.0);
    let patch = from.saturating_mul(taps);
    let (m, n, k) = if is_of_weight { (to, patch, outputs) } else { (outputs, to, patch) };
    Cow::Owned(Work { family: Family::Gemm, shape: Shape::Gemm { batch: groups, m, n, k }.possible(), ..work.clone() })
}

/// The convolution `work`, any pass of it, with channels rounded up to whole accesses of `whole` elements, and the tensors that are copied for
/// it: bytes of each as it is and as it is rounded up. `None` of other work and of groups, and where nothing is rounded up.
pub(crate) fn with_whole_channels(work: &Work, whole: u64) -> Option<(Work, Vec<(u64, u64)>)> {
    let mut padded = work.clone();
    let weight = weight_bytes(work)?;
    let Shape::Conv { batch, channels_in, channels_out, out_h, out_w, groups: 1, .. } = &mut padded.shape else {
        return None;
    };
    let output = elements(&[*batch, *channels_out, *out_h, *out_w]).saturating_mul(element_bytes(work));
    let input = work.bytes().0.saturating_sub(weight).saturating_sub(output);
    let (from, to) = (*channels_in, *channels_out);
    (*channels_in, *channels_out) = (from.next_multiple_of(whole), to.next_multiple_of(whole));
    let grown = |bytes: u64, (now, then): (u64, u64)| (bytes as f64 * now as f64 / then.max(1) as f64) as u64;
    let of_input = (input, grown(input, (*channels_in, from)));
    let of_output = (output, grown(output, (*channels_out, to)));
    let of_weight = (weight, grown(grown(weight, (*channels_in, from)), (*channels_out, to)));
    let tensors = [of_input, of_weight, of_output];
    let written = tensors.iter().find(|(old, _)| *old == work.written.0)?.1;
    let all: u64 = tensors.iter().map(|(_, new)| new).sum();
    (padded.read, padded.written) = (Bytes(all.saturating_sub(written)), Bytes(written));
    padded.flop = Flop(work.flop.0 * (*channels_in * *channels_out) as f64 / (from * to).max(1) as f64);
    let copied: Vec<(u64, u64)> = tensors.into_iter().filter(|(old, new)| old != new).collect();
    (!copied.is_empty()).then_some((padded, copied))
}

/// Bytes of the weight of the convolution `work`; `None` of other work.
fn weight_bytes(work: &Work) -> Option<u64> {
    let &Shape::Conv { channels_in, channels_out, r, s, groups, .. } = &work.shape else { return None };
    let weight = elements(&[channels_out, (channels_in / groups.max(1)).max(1), r, s]);
    Some(weight.saturating_mul(element_bytes(work)))
}

/// The work of one pass of the convolution operator `name`, by the algorithm among its arguments, if there is one.
pub(super) fn pass_work(name: &str, args: Args<'_>, pass: ConvPass, tf32: bool) -> Option<Work> {
    let mut work = conv_work(&size(name, args)?, pass, args.dtype_at(0), tf32);
    if let Shape::Conv { algorithm, .. } = &mut work.shape {
        *algorithm = args.values_from_last().find_map(ChosenAlgorithm::of_argument);
    }
    Some(work)
}

/// Size of the convolution that operator `name` computes, when its sizes were recorded.
/// Without recorded strides the output is taken as large as the input ("same" padding, stride 1), for filters of even size
/// as one element per patch.
pub(super) fn size(name: &str, args: Args<'_>) -> Option<ConvSize> {
    let places = ConvArguments::of(name)?;
    let (input, weight) = (args.tensor(places.input)?, args.tensor(places.weight)?);
    let (&[batch, channels_in], &[first, second]) = (input.first_chunk::<2>()?, weight.first_chunk::<2>()?);
    let (spatial, filter) = (&input[2..], &weight[2..]);
    let transposed = places.transposed.and_then(|index| args.truth(index)).unwrap_or(false);
    let groups = args.number(places.groups).unwrap_or_else(|| (channels_in / second.max(1)).max(1));
    let strides = args.numbers(places.stride).or_else(|| patch_strides(filter));
    let output: Vec<u64> = match places.output.map_or_else(|| args.output(), |index| args.tensor(index)) {
        Some(dims) => {
            // An image that is smaller than the filter has no result, whatever was recorded of one.
            if !transposed && args.numbers(places.padding).is_some() {
                output_dims(spatial, filter, strides.as_ref(), args, &places)?;
            }
            dims.iter().skip(2).copied().collect()
        }
        None if transposed => {
            spatial.iter().zip(0..).map(|(&dim, axis)| dim.saturating_mul(entry(strides.as_ref(), axis, 1))).collect()
        }
        None => output_dims(spatial, filter, strides.as_ref(), args, &places)?,
    };
    // A transposed convolution does per input element what a plain one does per output element.
    let area = if transposed { spatial } else { &output[..] };
    let (h, w) = height_width(area);
    let (r, s) = height_width(filter);
    Some(ConvSize {
        batch,
        channels_in: if transposed { second.saturating_mul(groups) } else { channels_in },
        channels_out: first,
        in_area: elements(if transposed { &output[..] } else { spatial }),
        out_h: h,
        out_w: w,
        r,
        s,
        stride: strides.iter().flatten().max().map_or(1, |&stride| stride.max(1) as u64),
        groups,
    })
}

/// Strides of a convolution that did not record them, when its filter is even along every axis: such a filter has no
/// centre, so it cuts the image into patches and moves by its own size.
fn patch_strides(filter: &[u64]) -> Option<Vec<i64>> {
    let even = !filter.is_empty() && filter.iter().all(|taps| taps % 2 == 0);
    even.then(|| filter.iter().map(|&taps| taps as i64).collect())
}

fn entry(list: Option<&Vec<i64>>, axis: usize, default: u64) -> u64 {
    let found = list.and_then(|list| list.get(axis).or_else(|| list.first()));
    found.map_or(default, |&value| u64::try_from(value).unwrap_or(default))
}

/// `⌊(in + 2·padding − dilation·(filter − 1) − 1) / stride⌋ + 1` along each axis; `None` where the filter is larger than the padded
/// image.
fn output_dims(
    spatial: &[u64],
    filter: &[u64],
    strides: Option<&Vec<i64>>,
    args: Args<'_>,
    at: &ConvArguments,
) -> Option<Vec<u64>> {
    let (padding, dilation) = (args.numbers(at.padding), args.numbers(at.dilation));
    spatial
        .iter()
        .zip(filter)
        .enumerate()
        .map(|(axis, (&dim, &taps))| {
            let reach = entry(dilation.as_ref(), axis, 1).saturating_mul(taps.saturating_sub(1));
            let usual = if taps % 2 == 0 { 0 } else { reach / 2 };
            let padded = dim.saturating_add(entry(padding.as_ref(), axis, usual).saturating_mul(2));
            let steps = padded.checked_sub(reach.saturating_add(1))?;
            Some((steps / entry(strides, axis, 1).max(1)).saturating_add(1))
        })
        .collect()
}

fn height_width(dims: &[u64]) -> (u64, u64) {
    dims.split_last().map_or((1, 1), |(&w, rest)| (elements(rest), w))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alexnet_conv1() -> ConvSize {
        ConvSize {
            batch: 1,
            channels_in: 3,
            channels_out: 64,
            in_area: 224 * 224,
            out_h: 55,
            out_w: 55,
            r: 11,
            s: 11,
            stride: 4,
            groups: 1,
        }
    }

    #[test]
    fn a_convolution_of_more_images_has_their_work_and_the_same_weights() {
        for pass in [ConvPass::Forward, ConvPass::InputGradient, ConvPass::WeightGradient] {
            let size = alexnet_conv1();
            let larger = ConvSize { batch: 4 * size.batch, ..size };
            let of = |size| conv_work(size, pass, DType::Fp32, false);
            assert_eq!(with_images(&of(&size), 4), of(&larger));
        }
    }

    #[test]
    fn a_convolution_of_whole_channels_is_one_of_as_many_and_copies_what_is_odd() {
        for pass in [ConvPass::Forward, ConvPass::InputGradient, ConvPass::WeightGradient] {
            let of = |channels_in: u64, channels_out: u64| {
                conv_work(&ConvSize { channels_in, channels_out, ..alexnet_conv1() }, pass, DType::Bf16, false)
            };
            let (whole, copied) = with_whole_channels(&of(65, 30), 8).unwrap();
            assert_eq!(whole, of(72, 32), "{pass:?}");
            assert_eq!(copied.len(), 3);
            let (_, of_input) = with_whole_channels(&of(65, 64), 8).unwrap();
            assert_eq!(
                of_input,
                [(65, 72), (65 * 64 * 121, 72 * 64 * 121)].map(|(old, new)| {
                    if old == 65 { (old * 224 * 224 * 2, new * 224 * 224 * 2) } else { (old * 2, new * 2) }
                })
            );
            assert!(with_whole_channels(&of(64, 64), 8).is_none());
        }
    }

    #[test]
    fn alexnet_conv1_has_the_published_number_of_multiply_accumulates() {
        // Kakrannava 2024: 70 276 800 MACC.
        assert!((conv_flop(&alexnet_conv1()).0 / 2.0 - 70_276_800.0).abs() < 1e-9);
    }

    #[test]
    fn each_pass_reads_two_tensors_and_writes_the_third() {
        let size = alexnet_conv1();
        let (input, weight, output) = (3 * 224 * 224 * 4, 64 * 3 * 121 * 4, 64 * 55 * 55 * 4);
        assert_eq!(conv_bytes(&size, ConvPass::Forward, 4), (Bytes(input + weight), Bytes(output)));
        assert_eq!(conv_bytes(&size, ConvPass::InputGradient, 4), (Bytes(output + weight), Bytes(input)));
        assert_eq!(conv_bytes(&size, ConvPass::WeightGradient, 4), (Bytes(output + input), Bytes(weight)));
    }

    #[test]
    fn grouped_convolutions_do_a_share_of_the_arithmetic() {
        let size = ConvSize { channels_in: 64, groups: 64, ..alexnet_conv1() };
        let dense = ConvSize { channels_in: 64, groups: 1, ..alexnet_conv1() };
        assert!((conv_flop(&dense).0 / conv_flop(&size).0 - 64.0).abs() < 1e-9);
    }
}
