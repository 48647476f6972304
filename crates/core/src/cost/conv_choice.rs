//! Algorithms of convolutions by name, and the choice of one as an argument of an operator. Knows no sizes and no device.

use serde::Serialize;

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConvAlgorithm {
    /// Seven nested loops.
    Direct,
    /// A matrix product that forms its operand on the fly.
    ImplicitGemm,
    /// A matrix product of an operand written out before.
    Im2col,
    /// Winograd's minimal filtering.
    Winograd,
    /// Products of spectra.
    Fft,
}

impl ConvAlgorithm {
    /// All of them, in the order of the enum.
    pub const ALL: [Self; 5] = [Self::Direct, Self::ImplicitGemm, Self::Im2col, Self::Winograd, Self::Fft];

    /// Its name in steps, tables and predictions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::ImplicitGemm => "implicit-gemm",
            Self::Im2col => "im2col",
            Self::Winograd => "winograd",
            Self::Fft => "fft",
        }
    }

    /// The algorithm of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// What the name of a convolution's kernel says of it.
    pub fn of_kernel(name: &str) -> Option<Self> {
        let has = |part: &str| name.contains(part);
        match () {
            () if has("winograd") => Some(Self::Winograd),
            () if has("fft") => Some(Self::Fft),
            () if has("im2col") => Some(Self::Im2col),
            () if has("implicit") || has("xmma_fprop") || has("_fprop_") || has("scudnn") => Some(Self::ImplicitGemm),
            () if has("direct") || has("conv2d_grouped") || has("conv_depthwise") => Some(Self::Direct),
            () => None,
        }
    }
}

/// Which algorithm a convolution has been told to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ChosenAlgorithm {
    /// The one it was recorded with; `None` where that is what the device's library takes.
    pub from: Option<ConvAlgorithm>,
    /// The one to use; `None` for the fastest on the device.
    pub to: Option<ConvAlgorithm>,
}

/// What opens the argument that holds a choice.
const ARGUMENT: &str = "conv-algorithm=";
/// The name of the choice of the fastest.
pub const BEST: &str = "best";

impl ChosenAlgorithm {
    /// The choice as an argument of an operator: `conv-algorithm=winograd` or `conv-algorithm=best from direct`.
    pub(crate) fn argument(self) -> String {
        let to = self.to.map_or(BEST, ConvAlgorithm::name);
        let from = self.from.map_or(String::new(), |from| format!(" from {}", from.name()));
        format!("{ARGUMENT}{to}{from}")
    }

    /// Reads what [`argument`](Self::argument) writes; `None` of any other text.
    pub(crate) fn of_argument(text: &str) -> Option<Self> {
        let (to, from) = match text.strip_prefix(ARGUMENT)?.split_once(" from ") {
            Some((to, from)) => (to, Some(ConvAlgorithm::parse(from)?)),
            None => (text.strip_prefix(ARGUMENT)?, None),
        };
        let to = if to == BEST { None } else { Some(ConvAlgorithm::parse(to)?) };
        Some(Self { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for to in ConvAlgorithm::ALL.into_iter().map(Some).chain([None]) {
            for from in [None, Some(ConvAlgorithm::Fft)] {
                let chosen = ChosenAlgorithm { from, to };
                assert_eq!(ChosenAlgorithm::of_argument(&chosen.argument()), Some(chosen));
            }
        }
        assert_eq!(ChosenAlgorithm::of_argument("[1, 1]"), None);
    }
}
