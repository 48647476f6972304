//! Where the arguments of convolution operators stand.

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
