//! The shapes of a Chrome-trace document as the PyTorch profiler writes it.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use crate::cost::Work;
use crate::device::DeviceProfile;
use crate::graph::{DType, Operand};
use crate::trace::StatedMemory;
use crate::units::{DurNs, TimeNs};

/// The top level.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    pub schema_version: u32,
    pub display_time_unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retime_predicted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retime_error: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retime_iteration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retime_batches: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retime_memory: Option<StatedMemory>,
    #[serde(rename = "distributedInfo", skip_serializing_if = "Option::is_none")]
    pub distributed_info: Option<DistributedInfo>,
    pub device_properties: Vec<DeviceProperties>,
    pub trace_events: Vec<Event<'a>>,
}

/// Which rank of a job a trace is of.
#[derive(Debug, Serialize)]
pub struct DistributedInfo {
    pub rank: u32,
    pub world_size: u32,
}

/// A device as the profiler describes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceProperties {
    id: usize,
    name: String,
    total_global_mem: u64,
    num_sms: u32,
}

impl DeviceProperties {
    pub fn of(id: usize, device: &DeviceProfile) -> Self {
        Self { id, name: device.name.clone(), total_global_mem: device.memory.0, num_sms: device.sm_count }
    }
}

/// A thread or stream number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Id(pub i64);

/// One event.
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    ph: &'static str,
    cat: &'static str,
    name: Cow<'a, str>,
    pid: i64,
    tid: Id,
    #[serde(serialize_with = "micros")]
    ts: TimeNs,
    #[serde(serialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    dur: Option<TimeNs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Beside the event: of a large file most events have few, and the flows none.
    args: Option<Box<Args>>,
}

impl<'a> Event<'a> {
    /// Something with a start and an end.
    pub fn complete(
        cat: &'static str,
        name: Cow<'a, str>,
        (pid, tid): (i64, Id),
        start: TimeNs,
        end: TimeNs,
        args: Args,
    ) -> Self {
        let dur = Some(TimeNs(end.since(start).0.max(0)));
        Self { ph: "X", cat, name, pid, tid, ts: start, dur, id: None, bp: None, args: Some(Box::new(args)) }
    }

    /// A name for a process or thread.
    pub fn named(kind: &'static str, (pid, tid): (i64, Id), name: String) -> Self {
        let args = Some(Box::new(Args { name: Some(name), ..Args::default() }));
        Self {
            ph: "M",
            cat: "__metadata",
            name: kind.into(),
            pid,
            tid,
            ts: TimeNs(0),
            dur: None,
            id: None,
            bp: None,
            args,
        }
    }

    /// Memory that is given (bytes above 0) or taken.
    pub fn memory((pid, tid): (i64, Id), at: TimeNs, args: Args) -> Self {
        let (cat, name, args) = ("cpu_instant_event", "[memory]".into(), Some(Box::new(args)));
        Self { ph: "i", cat, name, pid, tid, ts: at, dur: None, id: None, bp: None, args }
    }

    /// One end of an arrow of the critical path.
    pub fn flow(ph: &'static str, id: u64, (pid, tid): (i64, Id), at: TimeNs) -> Self {
        let bp = (ph == "f").then_some("e");
        let name = "critical_path".into();
        Self { ph, cat: "critical_path", name, pid, tid, ts: at, dur: None, id: Some(id), bp, args: None }
    }

    /// Puts an event that contains no whole microsecond on the next one; its own start goes along in its arguments.
    ///
    /// Tools that round starts up and ends down (HolisticTraceAnalysis does) would give it a negative length.
    pub fn on_whole_micros(mut self) -> Self {
        const MICROS: i64 = 1_000;
        let (start, end) = (self.ts, self.ts + DurNs(self.dur.unwrap_or_default().0));
        let next = start + DurNs(MICROS - start.0.rem_euclid(MICROS));
        if start.0.rem_euclid(MICROS) > 0 && next >= end {
            self.args.get_or_insert_default().start = Some(start);
            self.ts = next;
        }
        self
    }

    /// Lets it last until `end`, if that is later.
    pub fn extend_to(&mut self, end: TimeNs) {
        let until = TimeNs(end.since(self.ts).0);
        self.dur = self.dur.max(Some(until));
    }
}

/// What an operator was given.
#[derive(Debug, Default, Serialize)]
pub struct Arguments {
    #[serde(rename = "Input Dims", skip_serializing_if = "Option::is_none")]
    pub input_dims: Option<Vec<Dims>>,
    #[serde(rename = "Input Strides", skip_serializing_if = "Option::is_none")]
    pub input_strides: Option<Vec<Dims>>,
    #[serde(rename = "Input type", skip_serializing_if = "Option::is_none")]
    pub input_type: Option<Vec<&'static str>>,
    #[serde(rename = "Concrete Inputs", skip_serializing_if = "Option::is_none")]
    pub concrete_inputs: Option<Vec<String>>,
}

/// What a collective sends, and among whom.
#[derive(Debug, Default, Serialize)]
pub struct Message {
    #[serde(rename = "Collective name", skip_serializing_if = "Option::is_none")]
    pub collective: Option<String>,
    #[serde(rename = "Process Group Name", skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(rename = "Group size", skip_serializing_if = "Option::is_none")]
    pub group_size: Option<u32>,
    #[serde(rename = "In msg nelems", skip_serializing_if = "Option::is_none")]
    pub in_elements: Option<u64>,
    #[serde(rename = "dtype", skip_serializing_if = "Option::is_none")]
    pub element: Option<&'static str>,
    #[serde(rename = "Seq", skip_serializing_if = "Option::is_none")]
    pub sequence_in_group: Option<u64>,
}

/// Memory that is given or taken.
#[derive(Debug, Default, Serialize)]
pub struct Memory {
    #[serde(rename = "Addr", skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    #[serde(rename = "Bytes", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    #[serde(rename = "Device Type", skip_serializing_if = "Option::is_none")]
    pub device_type: Option<u32>,
    #[serde(rename = "Device Id", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<i64>,
    #[serde(rename = "Total Allocated", skip_serializing_if = "Option::is_none")]
    pub total_allocated: Option<u64>,
    #[serde(rename = "Total Reserved", skip_serializing_if = "Option::is_none")]
    pub total_reserved: Option<u64>,
    #[serde(rename = "retime holds", skip_serializing_if = "Option::is_none")]
    pub holds: Option<&'static str>,
}

/// Arguments; absent ones are not written. What few events have stands beside: a file has as many of them as events.
#[derive(Debug, Default, Serialize)]
pub struct Args {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(rename = "External id", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(rename = "Sequence number", skip_serializing_if = "Option::is_none")]
    pub sequence_number: Option<i64>,
    #[serde(flatten)]
    pub arguments: Option<Box<Arguments>>,
    #[serde(flatten)]
    pub message: Option<Box<Message>>,
    #[serde(flatten)]
    pub memory: Option<Box<Memory>>,
    #[serde(rename = "retime work", skip_serializing_if = "Option::is_none")]
    pub work: Option<StatedWork>,
    /// Where the event itself is written elsewhere.
    #[serde(rename = "retime start", serialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    pub start: Option<TimeNs>,
    #[serde(rename = "Source", skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What a kernel or an operator on the host has to do in an edited iteration, but for the sizes that its operator's arguments tell.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum StatedWork {
    Known {
        family: &'static str,
        precision: &'static str,
        flop: f64,
        #[serde(rename = "read bytes")]
        read: u64,
        #[serde(rename = "written bytes")]
        written: u64,
    },
    Unknown(&'static str),
}

impl StatedWork {
    pub fn of(work: Option<&Work>) -> Self {
        let known = |work: &Work| Self::Known {
            family: work.family.name(),
            precision: work.precision.key(),
            flop: work.flop.0,
            read: work.read.0,
            written: work.written.0,
        };
        work.map_or(Self::Unknown("unknown"), known)
    }
}

/// Dimensions of an argument: of a tensor, or of each tensor of a list.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Dims {
    /// Of a tensor; empty for anything else.
    One(Vec<u64>),
    /// Of a list of tensors.
    Many(Vec<Dims>),
}

/// The dimensions of an argument.
pub fn dims(operand: &Operand) -> Dims {
    match operand {
        Operand::Tensor { dims, .. } => Dims::One(dims.clone()),
        Operand::TensorList(list) => Dims::Many(list.iter().map(dims).collect()),
        Operand::Value(_) => Dims::One(Vec::new()),
    }
}

/// The strides of arguments of which some are expanded, the others lying side by side; none where none is.
pub fn strides(operands: &[Operand]) -> Option<Vec<Dims>> {
    fn is_expanded(operand: &Operand) -> bool {
        match operand {
            Operand::Tensor { expanded, .. } => !expanded.is_empty(),
            Operand::TensorList(list) => list.iter().any(is_expanded),
            Operand::Value(_) => false,
        }
    }
    operands.iter().any(is_expanded).then(|| operands.iter().map(strides_of).collect())
}

fn strides_of(operand: &Operand) -> Dims {
    match operand {
        Operand::Tensor { dims, expanded, .. } => {
            let mut strides = vec![0; dims.len()];
            let mut apart: u64 = 1;
            for (at, &dim) in dims.iter().enumerate().rev().filter(|&(at, _)| !expanded.contains(at)) {
                strides[at] = apart;
                apart = apart.saturating_mul(dim);
            }
            Dims::One(strides)
        }
        Operand::TensorList(list) => Dims::Many(list.iter().map(strides_of).collect()),
        Operand::Value(_) => Dims::One(Vec::new()),
    }
}

/// The profiler's name for an argument's type.
pub fn type_name(operand: &Operand) -> &'static str {
    match operand {
        Operand::Tensor { dtype, .. } => dtype.map_or("", element_name),
        Operand::TensorList(_) => "TensorList",
        Operand::Value(text) if text.starts_with('[') => "ScalarList",
        Operand::Value(text) if text.is_empty() => "",
        Operand::Value(_) => "Scalar",
    }
}

fn element_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Fp64 => "double",
        DType::Fp32 => "float",
        DType::Fp16 => "c10::Half",
        DType::Bf16 => "c10::BFloat16",
        DType::Fp8 => "c10::Float8_e4m3fn",
        DType::Int64 => "long int",
        DType::Int32 => "int",
        DType::Int16 => "short int",
        // PyTorch stores two 4-bit numbers in a byte.
        DType::Int8 | DType::Int4 => "signed char",
        DType::Bool => "bool",
        DType::Complex64 => "c10::complex<float>",
    }
}

/// Writes ns as µs. Shortest-form printing of f64 keeps all three places up to 2⁵³ ns (104 days).
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub fn micros<S: Serializer>(time: &TimeNs, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.0 as f64 / 1e3)
}

#[expect(clippy::ref_option, reason = "serde asks for a reference")]
fn optional_micros<S: Serializer>(time: &Option<TimeNs>, serializer: S) -> Result<S::Ok, S::Error> {
    micros(&time.unwrap_or_default(), serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_written_where_something_is_expanded() {
        let tensor = |dims: &[u64], strides: &[i64]| Operand::strided(dims.to_vec(), strides, Some(DType::Fp32));
        let (plain, expanded) = (tensor(&[8, 4], &[4, 1]), tensor(&[16, 8, 4], &[0, 4, 1]));
        assert!(strides(&[plain.clone(), Operand::Value("3".into())]).is_none());
        let written = serde_json::to_string(&strides(&[plain, Operand::TensorList(vec![expanded])])).unwrap();
        assert_eq!(written, "[[4,1],[[0,4,1]]]");
    }
}
