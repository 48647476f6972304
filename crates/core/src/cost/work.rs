//! A kernel's work: its family, its arithmetic and its memory traffic.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::conv_choice::ChosenAlgorithm;
use super::reuse::Reuse;
use crate::device::Precision;
use crate::device::limits::{MOST_BYTES_PER_SECOND, MOST_FLOP_PER_SECOND};
use crate::units::{Bytes, DurNs, Flop};

/// Kinds of kernels that share a cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Matrix products, batched or not, with or without bias.
    Gemm,
    /// Convolutions, forward and backward.
    Conv,
    /// Fused attention.
    Attention,
    /// Embedding lookups, forward and backward.
    Embedding,
    /// Batch, layer, group and RMS norm.
    Norm,
    /// Softmax and log-softmax.
    Softmax,
    /// Dropout.
    Dropout,
    /// Element-wise arithmetic, activations and casts.
    Elementwise,
    /// Sums, means, maxima, losses.
    Reduction,
    /// Pooling.
    Pooling,
    /// Concatenation, copies, transposes, indexing, fills.
    Movement,
    /// Optimizer updates.
    Optimizer,
    /// Copies between host and device, and memsets.
    Transfer,
    /// Collectives.
    Collective,
    /// Not recognised.
    Other,
}

impl Family {
    /// Its name in selectors and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Conv => "conv",
            Self::Attention => "attention",
            Self::Embedding => "embedding",
            Self::Norm => "norm",
            Self::Softmax => "softmax",
            Self::Dropout => "dropout",
            Self::Elementwise => "elementwise",
            Self::Reduction => "reduction",
            Self::Pooling => "pooling",
            Self::Movement => "movement",
            Self::Optimizer => "optimizer",
            Self::Transfer => "transfer",
            Self::Collective => "collective",
            Self::Other => "other",
        }
    }

    /// All families, in the order of the enum.
    pub const ALL: [Self; 15] = [
        Self::Gemm,
        Self::Conv,
        Self::Attention,
        Self::Embedding,
        Self::Norm,
        Self::Softmax,
        Self::Dropout,
        Self::Elementwise,
        Self::Reduction,
        Self::Pooling,
        Self::Movement,
        Self::Optimizer,
        Self::Transfer,
        Self::Collective,
        Self::Other,
    ];
}

/// How a kernel goes over the rows that a list picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Picking {
    /// Each is copied, by a block of threads of its own.
    Copied,
    /// Each is added to one, element by element.
    Added,
    /// The list is sorted first, and each is added by a warp of its own, so that those of one place are added in order.
    AddedInOrder,
}

/// The sizes that a family's model needs beyond FLOP and bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Shape {
    /// Nothing beyond FLOP and bytes.
    Plain,
    /// `[batch, m, k] × [batch, k, n]`.
    Gemm {
        /// Independent products.
        batch: u64,
        /// Rows of the result.
        m: u64,
        /// Columns of the result.
        n: u64,
        /// Length of each dot product.
        k: u64,
    },
    /// A convolution of `[batch, channels_in, h, w]` with `[channels_out, channels_in/groups, r, s]`.
    Conv {
        /// Images.
        batch: u64,
        /// Input channels.
        channels_in: u64,
        /// Output channels.
        channels_out: u64,
        /// Output height.
        out_h: u64,
        /// Output width.
        out_w: u64,
        /// Filter height.
        r: u64,
        /// Filter width.
        s: u64,
        /// Stride (the larger of both directions).
        stride: u64,
        /// Groups.
        groups: u64,
        /// The algorithm that an edit or a layer table chose.
        algorithm: Option<ChosenAlgorithm>,
    },
    /// Embedding lookup of `batch` bags of `pooling` rows in each of `tables` tables of `[rows, dim]`.
    Embedding {
        /// Bags per table.
        batch: u64,
        /// Rows of a table (mean over tables).
        rows: u64,
        /// Tables looked up at once.
        tables: u64,
        /// Look-ups per bag (mean).
        pooling: f64,
        /// Elements per row.
        dim: u64,
        /// Whether rows are updated rather than read.
        backward: bool,
        /// Which rows the bags look up.
        reuse: Reuse,
    },
    /// Independent rows worked on together: norms, softmax and reductions over one dimension.
    /// For batch norm a row is a channel.
    Rows {
        /// How many rows: what bounds the parallelism.
        rows: u64,
        /// Elements of a row.
        width: u64,
    },
    /// Batch norm by the framework's own kernels, which give each channel a block of threads.
    Channels {
        /// Images.
        images: u64,
        /// Channels.
        channels: u64,
        /// Elements of an image's channel.
        area: u64,
    },
    /// A sum over the rows of a matrix whose columns lie side by side.
    Columns {
        /// Values of each result.
        rows: u64,
        /// Results.
        columns: u64,
    },
    /// Elements that are found one by one: copies between layouts, broadcast arithmetic, concatenation, picking by index.
    Strided {
        /// Elements of the result.
        elements: u64,
    },
    /// A tensor of which two dimensions change places, tile by tile.
    Tiled {
        /// Elements of all tiles, with places beyond the tensor's edges.
        elements: u64,
    },
    /// Rows that a list of places picks from a tensor, or adds to one.
    Picked {
        /// Entries of the list.
        rows: u64,
        /// Elements of a row.
        width: u64,
        /// How they are gone over.
        picking: Picking,
    },
    /// A list that is sorted, scanned or compacted: each block of threads waits for what the blocks before it found.
    Chained,
    /// A copy or fill; the bytes are `Work::written`.
    Copy {
        /// From where to where.
        route: Route,
        /// Whether the host's memory is pinned, where the host takes part and the trace tells.
        pinned: Option<bool>,
    },
    /// A collective of `ranks` ranks; the message of one rank is `Work::read`.
    Collective {
        /// Which collective.
        kind: CollectiveKind,
        /// Ranks taking part.
        ranks: u32,
    },
    /// Attention of `[batch, heads, queries, dim]` over `keys` keys.
    Attention {
        /// Sequences.
        batch: u64,
        /// Heads.
        heads: u64,
        /// Query length.
        queries: u64,
        /// Key length.
        keys: u64,
        /// Head dimension.
        dim: u64,
        /// Whether later keys are masked.
        causal: bool,
        /// Whether gradients are computed.
        backward: bool,
    },
}

/// The most that the sizes of one shape multiply to: no memory holds so much, no device works it off in a year.
const MOST: u64 = 1 << 60;

impl Shape {
    /// The shape where a device could have worked on it, `Plain` where the sizes that a file states are beyond all reason: of the sizes
    /// of every other shape products can be taken.
    pub(super) fn possible(self) -> Self {
        let sizes: &[u64] = match &self {
            &Self::Gemm { batch, m, n, k } => &[batch, m, n, k],
            &Self::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, .. } => {
                &[batch, channels_in, channels_out, out_h, out_w, r, s]
            }
            &Self::Embedding { batch, rows, tables, dim, .. } => &[batch, rows, tables, dim],
            &Self::Rows { rows, width } | &Self::Picked { rows, width, .. } => &[rows, width],
            &Self::Columns { rows, columns } => &[rows, columns],
            &Self::Channels { images, channels, area } => &[images, channels, area],
            &Self::Attention { batch, heads, queries, keys, dim, .. } => &[batch, heads, queries, keys, dim],
            Self::Plain
            | Self::Strided { .. }
            | Self::Tiled { .. }
            | Self::Chained
            | Self::Copy { .. }
            | Self::Collective { .. } => &[],
        };
        let all = sizes.iter().fold(1, |product: u64, &size| product.saturating_mul(size.max(1)));
        if all <= MOST { self } else { Self::Plain }
    }
}

/// Between which memories a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Host → device.
    HostToDevice,
    /// Device → host.
    DeviceToHost,
    /// Within a device.
    DeviceToDevice,
    /// One device → another.
    PeerToPeer,
    /// A fill of device memory with one value.
    Fill,
}

impl Route {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostToDevice => "host-to-device",
            Self::DeviceToHost => "device-to-host",
            Self::DeviceToDevice => "device-to-device",
            Self::PeerToPeer => "peer-to-peer",
            Self::Fill => "fill",
        }
    }

    /// Whether the host's memory is at one end.
    pub(crate) fn is_of_host(self) -> bool {
        matches!(self, Self::HostToDevice | Self::DeviceToHost)
    }
}

/// Collectives by what moves where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    /// Every rank ends with the sum over ranks.
    AllReduce,
    /// Every rank sends a part to every other.
    AllToAll,
    /// Every rank ends with the parts of all.
    AllGather,
    /// Every rank ends with its part of the sum.
    ReduceScatter,
    /// One rank's data to all.
    Broadcast,
    /// The sum over ranks to one.
    Reduce,
    /// From one rank to another.
    SendRecv,
    /// No data.
    Barrier,
}

impl CollectiveKind {
    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllToAll => "all-to-all",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::SendRecv => "send-recv",
            Self::Barrier => "barrier",
        }
    }
}

/// What a kernel has to do, independent of the device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Work {
    /// Which model family it belongs to.
    pub family: Family,
    /// Arithmetic of the algorithm; a multiply-accumulate is two.
    pub flop: Flop,
    /// Bytes read, each tensor once.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
    /// How it computes.
    pub precision: Precision,
    /// Family-specific sizes.
    pub shape: Shape,
}

/// Bytes of an element as kernels of `work`'s precision load it.
pub(crate) fn element_bytes(work: &Work) -> u64 {
    element_bytes_of(work.precision)
}

/// Bytes of an element that is computed with in `precision`.
pub(super) fn element_bytes_of(precision: Precision) -> u64 {
    match precision {
        Precision::Fp64 | Precision::Fp64Matrix => 8,
        Precision::Fp32 | Precision::Fp32Matrix | Precision::Tf32 => 4,
        Precision::Fp16 | Precision::Fp16Tensor | Precision::Bf16Tensor => 2,
        Precision::Fp8Tensor | Precision::Int8Tensor => 1,
    }
}

impl Hash for Work {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.family as u8, self.precision as u8).hash(state);
        (self.flop.0.to_bits(), self.read.0, self.written.0).hash(state);
        self.shape.hash(state);
    }
}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Plain | Self::Chained => {}
            Self::Gemm { batch, m, n, k } => (batch, m, n, k).hash(state),
            Self::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, algorithm } => {
                (batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, algorithm).hash(state);
            }
            Self::Embedding { batch, rows, tables, pooling, dim, backward, reuse } => {
                (batch, rows, tables, pooling.to_bits(), dim, backward, reuse).hash(state);
            }
            Self::Rows { rows, width } => (rows, width).hash(state),
            Self::Columns { rows, columns } => (rows, columns).hash(state),
            Self::Channels { images, channels, area } => (images, channels, area).hash(state),
            Self::Strided { elements } | Self::Tiled { elements } => elements.hash(state),
            Self::Picked { rows, width, picking } => (rows, width, picking).hash(state),
            Self::Copy { route, pinned } => (route, pinned).hash(state),
            Self::Collective { kind, ranks } => (kind, ranks).hash(state),
            Self::Attention { batch, heads, queries, keys, dim, causal, backward } => {
                (batch, heads, queries, keys, dim, causal, backward).hash(state);
            }
        }
    }
}

impl Work {
    /// Bytes read and written.
    pub fn bytes(&self) -> Bytes {
        self.read + self.written
    }

    /// What a collective lacks to be re-costed, in words; `None` where it lacks nothing, and of other work.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        let Shape::Collective { kind, ranks } = self.shape else { return None };
        match ranks {
            0 => Some("how many ranks took part was not recorded"),
            1 => Some("a rank alone took part"),
            _ if kind != CollectiveKind::Barrier && self.read.0 == 0 => {
                Some("the size of its message was not recorded")
            }
            _ => None,
        }
    }

    /// Whether any device could work it off within an hour, which is longer than any task.
    pub(crate) fn is_possible(&self) -> bool {
        const HOUR: DurNs = DurNs(3_600_000_000_000);
        self.is_possible_within(HOUR)
    }

    /// Whether any device could work it off in `time`.
    pub(crate) fn is_possible_within(&self, time: DurNs) -> bool {
        self.flop.0 <= MOST_FLOP_PER_SECOND * time.secs()
            && self.bytes().0 as f64 <= MOST_BYTES_PER_SECOND * time.secs()
    }

    /// The units that its arithmetic is done by, where a device has them: products of fp32 by those for matrices.
    pub fn computed_with(&self) -> Precision {
        let is_product = matches!(self.family, Family::Gemm | Family::Conv | Family::Attention);
        if is_product && self.precision == Precision::Fp32 { Precision::Fp32Matrix } else { self.precision }
    }

    /// Arithmetic intensity in FLOP per byte; zero without traffic.
    pub fn intensity(&self) -> f64 {
        let bytes = self.bytes().0 as f64;
        if bytes > 0.0 { self.flop.0 / bytes } else { 0.0 }
    }
}
