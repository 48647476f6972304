//! What styles are for: roles of text, and paints of bars.

use retime_core::cost::work::Family;
use retime_core::graph::Phase;

macro_rules! keyed {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of the enum.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its key in theme files.
            pub fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)* }
            }
        }
    };
}

keyed! {
    /// What a piece of the screen is for.
    Role {
        /// Everything that has no other style.
        Background = "background",
        /// Running text.
        Text = "text",
        /// Less important text: labels, units.
        Dim = "dim",
        /// Barely there: hints, empty fields.
        Faint = "faint",
        /// Lines between panes.
        Border = "border",
        /// Titles.
        Title = "title",
        /// Figures that count.
        Strong = "strong",
        /// What is in focus.
        Accent = "accent",
        /// A key to press.
        Key = "key",
        /// Better, or fine.
        Good = "good",
        /// Worth a look.
        Warn = "warn",
        /// Worse, or wrong.
        Bad = "bad",
        /// The chosen row of a list.
        Selected = "selected",
        /// The ground of a box over the screen.
        Panel = "panel",
        /// Text on a bar.
        BarText = "bar_text",
        /// The chosen bar.
        BarSelected = "bar_selected",
        /// The critical path.
        Critical = "critical",
        /// Marks and measurements.
        Mark = "mark",
        /// The letters that a search found.
        Match = "match",
        /// The word "measured" and its figures.
        Measured = "measured",
        /// The word "simulated" and its figures.
        Simulated = "simulated",
        /// Lines and bars of charts.
        Chart = "chart",
        /// The rest of charts.
        ChartDim = "chart_dim",
    }
}

keyed! {
    /// What a bar stands for.
    Paint {
        /// Matrix products.
        Gemm = "gemm",
        /// Convolutions.
        Conv = "conv",
        /// Attention.
        Attention = "attention",
        /// Embedding lookups.
        Embedding = "embedding",
        /// Norms.
        Norm = "norm",
        /// Softmax.
        Softmax = "softmax",
        /// Dropout.
        Dropout = "dropout",
        /// Element-wise kernels.
        Elementwise = "elementwise",
        /// Reductions and losses.
        Reduction = "reduction",
        /// Pooling.
        Pooling = "pooling",
        /// Movement of data on the device.
        Movement = "movement",
        /// Optimizer, host or device.
        Optimizer = "optimizer",
        /// Copies between host and device.
        Transfer = "transfer",
        /// Collectives.
        Collective = "collective",
        /// Any other kernel.
        Other = "other",
        /// An operator of the forward pass.
        Forward = "forward",
        /// An operator of the backward pass.
        Backward = "backward",
        /// Any other operator.
        Host = "host",
        /// A runtime call.
        Call = "call",
    }
}

impl From<Family> for Paint {
    fn from(family: Family) -> Self {
        match family {
            Family::Gemm => Self::Gemm,
            Family::Conv => Self::Conv,
            Family::Attention => Self::Attention,
            Family::Embedding => Self::Embedding,
            Family::Norm => Self::Norm,
            Family::Softmax => Self::Softmax,
            Family::Dropout => Self::Dropout,
            Family::Elementwise => Self::Elementwise,
            Family::Reduction => Self::Reduction,
            Family::Pooling => Self::Pooling,
            Family::Movement => Self::Movement,
            Family::Optimizer => Self::Optimizer,
            Family::Transfer => Self::Transfer,
            Family::Collective => Self::Collective,
            Family::Other => Self::Other,
        }
    }
}

impl From<Phase> for Paint {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Forward => Self::Forward,
            Phase::Backward => Self::Backward,
            Phase::Optimizer => Self::Optimizer,
            Phase::Data => Self::Transfer,
            Phase::Other => Self::Host,
        }
    }
}
