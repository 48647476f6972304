//! The fields of a selector, and what each can be compared with.

/// A property of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// What it is.
    Kind,
    /// Its own name or that of an operator around it.
    Name,
    /// Name of the kernel.
    Kernel,
    /// Module path of an operator around it.
    Module,
    /// Family of its work.
    Family,
    /// Part of training.
    Phase,
    /// Global rank.
    Rank,
    /// Recorded device name or number.
    Device,
    /// Stream number.
    Stream,
    /// Thread id or name.
    Thread,
    /// Element type of its operator's arguments.
    Dtype,
    /// Traced duration.
    Dur,
    /// Bytes it moves.
    Bytes,
}

/// A field for palettes and help.
#[derive(Debug)]
pub struct FieldSpec {
    /// Its name.
    pub name: &'static str,
    /// The field.
    pub field: Field,
    /// Operators it can be compared with.
    pub operators: &'static [&'static str],
    /// Its possible values; empty where they depend on the trace.
    pub values: &'static [&'static str],
    /// What it is, in a few words.
    pub help: &'static str,
}

const TEXT: &[&str] = &["=", "!=", "~", "!~"];
const ONE_OF: &[&str] = &["=", "!="];
const NUMBER: &[&str] = &["=", "!=", "<", "<=", ">", ">="];

/// Values of `kind`.
pub const KINDS: &[&str] = &[
    "op",
    "host",
    "compute",
    "runtime",
    "kernel",
    "memcpy",
    "memset",
    "collective",
    "unrecorded",
    "device",
    "T1",
    "T2",
    "T3",
    "T4",
    "T5",
];

const FAMILIES: &[&str] = &[
    "gemm",
    "conv",
    "attention",
    "embedding",
    "norm",
    "softmax",
    "dropout",
    "elementwise",
    "reduction",
    "pooling",
    "movement",
    "optimizer",
    "transfer",
    "collective",
    "other",
];

const fn spec(
    name: &'static str,
    field: Field,
    operators: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
) -> FieldSpec {
    FieldSpec { name, field, operators, values, help }
}

/// All fields; `predicted` and `measured` stand alone.
pub const FIELDS: [FieldSpec; 13] = [
    spec(
        "kind",
        Field::Kind,
        ONE_OF,
        KINDS,
        "what the task is; op: all that operators did, T1 to T5: the parts of host time",
    ),
    spec("name", Field::Name, TEXT, &[], "its name or that of an operator around it"),
    spec("kernel", Field::Kernel, TEXT, &[], "name of the kernel"),
    spec("module", Field::Module, TEXT, &[], "module path of an operator around it"),
    spec("family", Field::Family, ONE_OF, FAMILIES, "family of a kernel or host computation"),
    spec("phase", Field::Phase, ONE_OF, &["forward", "backward", "optimizer", "data", "other"], "part of training"),
    spec("rank", Field::Rank, NUMBER, &[], "global rank"),
    spec("device", Field::Device, TEXT, &[], "recorded name or number of the device"),
    spec("stream", Field::Stream, NUMBER, &[], "stream number"),
    spec("thread", Field::Thread, TEXT, &[], "thread id or name"),
    spec(
        "dtype",
        Field::Dtype,
        ONE_OF,
        &["fp64", "fp32", "fp16", "bf16", "fp8", "int64", "int32", "int16", "int8", "bool", "complex64"],
        "element type of the operator's arguments",
    ),
    spec("dur", Field::Dur, NUMBER, &[], "traced duration, with ns, us, ms or s"),
    spec("bytes", Field::Bytes, NUMBER, &[], "bytes moved, with B, KiB, MiB or GiB"),
];
