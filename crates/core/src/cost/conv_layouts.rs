//! Changes of layout around convolutions on matrix units, whose libraries take channels last.
//!
//! Each tensor that a product reads is put into that layout and its result back, except for filters of one tap, which are the same in
//! both. Where a filter has one tap and moves by one, the convolution is a product of its matrices as they lie, if the pixels of a
//! channel fill whole accesses [order and counts as cuDNN 9 launches them on H100 and H200: of 720 and 360 tensors of four steps of
//! ResNet-50 in bf16 it puts 676 last and 316 first, of 528 and 264 in tf32 544 and 252; of 58 and 29 of VGG-13 in tf32 54 and 26].

use crate::units::elements;

use super::classify::Caller;
use super::kernel_name::LayoutChange;
use super::operators::{self, ConvPass, Reading, movement_work};
use super::parts::Part;
use super::work::{Family, Shape, Work, element_bytes};

/// The tensors of a convolution in bytes.
#[derive(Clone, Copy)]
pub(super) struct Tensors {
    pub(super) input: u64,
    pub(super) weights: u64,
    pub(super) output: u64,
}

impl Tensors {
    pub(super) fn of(caller: &Caller<'_>, reading: Reading) -> Option<Self> {
        let written = |pass| {
            let work = operators::conv_pass_work(caller.operator, caller.operands?, pass, reading)?;
            Some(work.written.0)
        };
        Some(Self {
            input: written(ConvPass::InputGradient)?,
            weights: written(ConvPass::WeightGradient)?,
            output: written(ConvPass::Forward)?,
        })
    }

    /// What it takes to change the layout of `tensor` of the convolution `work`.
    fn moved(self, tensor: Tensor, work: &Work) -> Work {
        let bytes = match tensor {
            Tensor::Input => self.input,
            Tensor::Weights => self.weights,
            Tensor::Output => self.output,
        };
        let &Shape::Conv { batch, channels_in, channels_out, groups, .. } = &work.shape else {
            return movement_work(Family::Movement, bytes, bytes);
        };
        let (images, channels) = match tensor {
            Tensor::Input => (batch, channels_in),
            Tensor::Weights => (channels_out, channels_in / groups.max(1)),
            Tensor::Output => (batch, channels_out),
        };
        let [images, channels] = [images.max(1), channels.max(1)];
        let area = bytes / element_bytes(work) / images / channels;
        let whole = |size: u64| size.checked_next_multiple_of(TILE).unwrap_or(size);
        let shape = Shape::Tiled { elements: elements(&[images, whole(channels), whole(area)]) };
        Work { shape, ..movement_work(Family::Movement, bytes, bytes) }
    }
}

/// Side of the tiles by which layouts change: channels and pixels of an image [cuDNN 8 and 9 launch a block for each].
const TILE: u64 = 32;

/// One of the tensors of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tensor {
    Input,
    Weights,
    Output,
}

/// The tensors whose layout changes around each of `passes`, in order.
fn changes(passes: &[ConvPass], has_one_tap: bool) -> Vec<(LayoutChange, Tensor)> {
    use LayoutChange::{ToChannelsFirst, ToChannelsLast};
    let filter = |change| (!has_one_tap).then_some((change, Tensor::Weights));
    let [input, output] = [Tensor::Input, Tensor::Output];
    let around = |pass: &ConvPass| match pass {
        ConvPass::Forward => [Some((ToChannelsLast, input)), filter(ToChannelsLast), Some((ToChannelsFirst, output))],
        ConvPass::InputGradient => {
            [filter(ToChannelsLast), Some((ToChannelsLast, output)), Some((ToChannelsFirst, input))]
        }
        ConvPass::WeightGradient => {
            [Some((ToChannelsLast, input)), Some((ToChannelsLast, output)), filter(ToChannelsFirst)]
        }
    };
    passes.iter().flat_map(around).flatten().collect()
}

/// Bytes of an access: what a product loads of each matrix at once.
const ACCESS: u64 = 16;

/// What a recorded kernel does that changes a layout, number `part` of those of its operator that change layouts that way; `work` is any
/// pass of the convolution.
///
/// Where fewer are recorded than all passes need, they are those of one pass: of the weights' gradient, if as many.
pub(super) fn changed(
    change: LayoutChange,
    part: Part,
    caller: &Caller<'_>,
    (tensors, work): (Tensors, &Work),
) -> Option<Work> {
    let has_one_tap = matches!(work.shape, Shape::Conv { r: 1, s: 1, .. });
    let asked = passes(caller);
    let of = |passes: &[ConvPass]| -> Vec<Tensor> {
        let changes = changes(passes, has_one_tap).into_iter();
        changes.filter(|(way, _)| *way == change).map(|(_, tensor)| tensor).collect()
    };
    let ways = [of(&asked), of(&asked[asked.len().saturating_sub(1)..]), of(&asked[..asked.len().min(1)])];
    let order = ways.iter().find(|order| order.len() == part.of as usize).unwrap_or(&ways[0]);
    order.get(part.at as usize).or(order.last()).map(|&tensor| tensors.moved(tensor, work))
}

fn passes(caller: &Caller<'_>) -> Vec<ConvPass> {
    caller.operands.map_or_else(Vec::new, |operands| operators::conv_passes(operators::bare(caller.operator), operands))
}

fn first_pass(caller: &Caller<'_>) -> Option<Work> {
    let pass = *passes(caller).first()?;
    operators::conv_pass_work(caller.operator, caller.operands?, pass, Reading::default())
}

/// Changes of layout around the convolution `caller` of tensors with channels first, were it computed on matrix units: each with what it
/// moves. None around a convolution in groups, which libraries compute in several ways, and around other operators.
pub(crate) fn layout_changes(caller: &Caller<'_>) -> Vec<(LayoutChange, Work)> {
    let Some(work) = first_pass(caller) else { return Vec::new() };
    let Shape::Conv { r, s, groups: 1, .. } = work.shape else { return Vec::new() };
    let Some(tensors) = Tensors::of(caller, Reading::default()) else { return Vec::new() };
    let changes = changes(&passes(caller), (r, s) == (1, 1)).into_iter();
    changes.map(|(change, tensor)| (change, tensors.moved(tensor, &work))).collect()
}

/// Whether the convolution `caller` is a product of matrices as they lie with channels first.
pub(crate) fn is_plain_product(caller: &Caller<'_>) -> bool {
    first_pass(caller).is_some_and(|work| {
        let Shape::Conv { out_h, out_w, r: 1, s: 1, stride: 1, .. } = work.shape else { return false };
        out_h.saturating_mul(out_w).saturating_mul(element_bytes(&work)).is_multiple_of(ACCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::{operands, value};
    use LayoutChange::{ToChannelsFirst, ToChannelsLast};

    const INPUT: u64 = 8 * 64 * 14 * 14 * 4;
    const OUTPUT: u64 = 8 * 32 * 14 * 14 * 4;

    fn bytes(operator: &str, dims: &[&[u64]], mask: Option<&str>) -> Vec<(LayoutChange, u64)> {
        let mut args = operands(dims);
        args.inputs.extend(mask.map(value));
        let changes = layout_changes(&Caller { operator, operands: Some(&args) });
        changes.into_iter().map(|(change, work)| (change, work.read.0)).collect()
    }

    #[test]
    fn tensors_are_put_last_and_results_first_but_for_filters_of_one_tap() {
        let weights = 32 * 64 * 9 * 4;
        let forward = bytes("aten::conv2d", &[&[8, 64, 14, 14], &[32, 64, 3, 3]], None);
        assert_eq!(forward, [(ToChannelsLast, INPUT), (ToChannelsLast, weights), (ToChannelsFirst, OUTPUT)]);
        let one_tap = bytes("aten::conv2d", &[&[8, 64, 14, 14], &[32, 64, 1, 1]], None);
        assert_eq!(one_tap, [(ToChannelsLast, INPUT), (ToChannelsFirst, OUTPUT)]);
        let grouped = bytes("aten::conv2d", &[&[8, 64, 14, 14], &[32, 8, 3, 3]], None);
        assert!(grouped.is_empty(), "{grouped:?}");
    }

    #[test]
    fn tiles_reach_over_edges() {
        let args = operands(&[&[8, 3, 14, 14], &[32, 3, 3, 3]]);
        let changes = layout_changes(&Caller { operator: "aten::conv2d", operands: Some(&args) });
        let elements = changes.iter().map(|(_, work)| match work.shape {
            Shape::Tiled { elements } => elements,
            _ => 0,
        });
        assert_eq!(elements.collect::<Vec<_>>(), [8 * 32 * 224, 32 * 32 * 32, 8 * 32 * 224]);
        assert_eq!(changes[0].1.read.0, 8 * 3 * 196 * 4);
    }

    #[test]
    fn gradients_that_are_not_asked_for_need_no_change() {
        let dims: [&[u64]; 3] = [&[8, 32, 14, 14], &[8, 64, 14, 14], &[32, 64, 1, 1]];
        let of = |mask| bytes("aten::convolution_backward", &dims, Some(mask));
        let of_weights = [(ToChannelsLast, INPUT), (ToChannelsLast, OUTPUT)];
        assert_eq!(of("[False, True, False]"), of_weights);
        let of_input = [(ToChannelsLast, OUTPUT), (ToChannelsFirst, INPUT)];
        assert_eq!(of("[True, True, False]"), [&of_input[..], &of_weights].concat());
    }

    #[test]
    fn one_tap_over_whole_accesses_of_pixels_is_a_product() {
        let is_plain = |side, taps| {
            let args = operands(&[&[8, 64, side, side], &[32, 64, taps, taps]]);
            is_plain_product(&Caller { operator: "aten::conv2d", operands: Some(&args) })
        };
        // 196 elements of four bytes are 49 accesses, 49 are not.
        assert!(is_plain(28, 1) && is_plain(14, 1) && !is_plain(7, 1) && !is_plain(28, 3));
    }
}
