//! Where the arguments of convolution operators stand, and which gradients their backward passes were asked for.

use super::{Operand, Operands};

/// The places of a convolution operator's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConvArguments {
    /// The input.
    pub(crate) input: usize,
    /// The weight.
    pub(crate) weight: usize,
    /// The strides.
    pub(crate) stride: usize,
    /// The padding.
    pub(crate) padding: usize,
    /// The dilation.
    pub(crate) dilation: usize,
    /// The number of groups.
    pub(crate) groups: usize,
    /// Whether it is transposed.
    pub(crate) transposed: Option<usize>,
    /// The gradient of its output, among the arguments of a backward pass.
    pub(crate) output: Option<usize>,
}

impl ConvArguments {
    /// Those of operator `name`, without namespace; `None` for other operators.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let order = |input, stride, padding, dilation, groups| Self {
            input,
            weight: input + 1,
            stride,
            padding,
            dilation,
            groups,
            transposed: None,
            output: None,
        };
        Some(match name {
            "conv1d" | "conv2d" | "conv3d" => order(0, 3, 4, 5, 6),
            "convolution" | "_convolution" | "convolution_overrideable" => {
                Self { transposed: Some(6), ..order(0, 3, 4, 5, 8) }
            }
            "cudnn_convolution" => order(0, 3, 2, 4, 5),
            "mkldnn_convolution" | "miopen_convolution" | "miopen_depthwise_convolution" => order(0, 4, 3, 5, 6),
            "thnn_conv2d" | "_slow_conv2d_forward" | "slow_conv3d" => order(0, 4, 5, 99, 99),
            "_conv_depthwise2d" => order(0, 4, 5, 6, 99),
            "_slow_conv2d_backward" => Self { output: Some(0), ..order(1, 4, 5, 99, 99) },
            "convolution_backward" | "convolution_backward_overrideable" => {
                Self { transposed: Some(7), output: Some(0), ..order(1, 4, 5, 6, 9) }
            }
            // The library's own operators, before 1.10: input, gradient, weight.
            "cudnn_convolution_backward" | "miopen_convolution_backward" | "mkldnn_convolution_backward" => {
                Self { weight: 2, output: Some(1), ..order(0, 4, 3, 5, 6) }
            }
            _ => return None,
        })
    }
}

/// Whether the backward pass of a convolution was asked for the gradient of its input, and of its weight: the mask behind its other
/// arguments says so, whatever an edit put behind that. Both where it was not recorded.
pub(crate) fn asked_gradients(operands: &Operands) -> (bool, bool) {
    let mask = |operand: &Operand| if let Operand::Value(text) = operand { mask(text) } else { None };
    operands.inputs.iter().rev().find_map(mask).unwrap_or((true, true))
}

fn mask(text: &str) -> Option<(bool, bool)> {
    let mut entries = text.trim().strip_prefix('[')?.strip_suffix(']')?.split(',').map(|entry| match entry.trim() {
        "True" | "true" => Some(true),
        "False" | "false" => Some(false),
        _ => None,
    });
    Some((entries.next()??, entries.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_which_gradients_were_asked_for() {
        let asked = |text: &str| {
            asked_gradients(&Operands { inputs: vec![Operand::Value(text.to_owned())], outputs: Vec::new() })
        };
        assert_eq!(asked("[False, True, True]"), (false, true));
        assert_eq!(asked("[true,false]"), (true, false));
        let text = |text: &str| Operand::Value(text.to_owned());
        let edited = vec![text("[False, True, False]"), text("added")];
        assert_eq!(asked_gradients(&Operands { inputs: edited, outputs: Vec::new() }), (false, true));
        for unrecorded in ["", "1", "[1, 1]"] {
            assert_eq!(asked(unrecorded), (true, true), "{unrecorded}");
        }
    }
}
