//! A made-up rank's timeline in the profiler's own JSON.

use serde_json::{Value, json};

use retime_core::graph::{DType, Operand};
use retime_core::units::TimeNs;

use super::timeline::{Placed, Span};
use super::{Machine, Operator, SyntheticJob};

const THREAD: u32 = 1;
const COMPUTE: u32 = 7;
const COMM: u32 = 20;

/// The trace of `rank`.
pub(super) fn trace(job: &SyntheticJob, rank: usize, placed: &[Placed<'_>], on: Machine<'_>, about: &str) -> Vec<u8> {
    let mut writer = Writer { rank, ranks: job.spec.ranks, ids: 0, exchanges: 0, events: Vec::new() };
    for step in 0..job.spec.steps {
        writer.step(step, placed.iter().filter(|one| one.step == step));
    }
    let about = json!({
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "retimePredicted": about,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": job.spec.ranks},
        "deviceProperties": [{
            "id": 0, "name": on.device.name, "totalGlobalMem": on.device.memory.0, "numSms": on.device.sm_count,
        }],
    });
    let about = about.to_string();
    let about = about.strip_suffix('}').unwrap_or(&about);
    format!("{about},\"traceEvents\":[{}]}}", writer.events.join(",")).into_bytes()
}

struct Writer {
    rank: usize,
    ranks: u32,
    /// Last id given to an operator or a call.
    ids: u64,
    exchanges: u64,
    /// As they are written.
    events: Vec<String>,
}

impl Writer {
    fn step<'a>(&mut self, number: u32, placed: impl Iterator<Item = &'a Placed<'a>>) {
        let place = self.events.len();
        let (mut span, mut backward): (Option<Span>, Option<Span>) = (None, None);
        for one in placed {
            for around in [Some(&mut span), one.operator.is_gradient.then_some(&mut backward)].into_iter().flatten() {
                let (start, end) = around.unwrap_or(one.span);
                *around = Some((start.min(one.span.0), end.max(one.span.1)));
            }
            self.operator(one, number);
        }
        let step = format!("ProfilerStep#{number}");
        for (name, span) in [("## backward ##", backward), (&step, span)] {
            if let Some(span) = span {
                self.events.insert(place, on_host("user_annotation", name, self.rank, span, &json!({})));
            }
        }
    }

    fn operator(&mut self, placed: &Placed<'_>, step: u32) {
        let operator = placed.operator;
        self.ids += 1;
        let id = self.ids;
        let mut args = json!({
            "External id": id,
            "Input Dims": operator.inputs.iter().map(|input| input.dims().map_or(vec![], <[u64]>::to_vec)).collect::<Vec<_>>(),
            "Input type": operator.inputs.iter().map(type_name).collect::<Vec<_>>(),
            "Concrete Inputs": operator.inputs.iter().map(concrete).collect::<Vec<_>>(),
        });
        if let Some(sequence) = operator.sequence {
            // Numbers grow through the trace, as autograd's do.
            args["Sequence number"] = json!(sequence + 1_000 * i64::from(step));
        }
        self.note_collective(operator, &mut args);
        self.events.push(on_host("cpu_op", operator.name, self.rank, placed.span, &args));
        if operator.collective.is_some() || operator.reads_collective {
            self.wait(operator, placed.span.0);
        }
        for (index, (name, _)) in operator.kernels.iter().enumerate() {
            self.kernel(operator, id, name, placed.calls[index], placed.kernels[index]);
        }
    }

    /// The streams wait for each other: one records an event, the other waits for it.
    fn wait(&mut self, operator: &Operator, start: TimeNs) {
        let (from, to) = if operator.collective.is_some() { (COMPUTE, COMM) } else { (COMM, COMPUTE) };
        let (record, wait) = (self.ids + 1, self.ids + 2);
        self.ids = wait;
        let at = |begin: i64| (TimeNs(start.0 + begin), TimeNs(start.0 + begin + 1_000));
        let call = |name: &str, id: u64, span: Span| {
            on_host("cuda_runtime", name, self.rank, span, &json!({"correlation": id}))
        };
        let calls = [call("cudaEventRecord", record, at(1_000)), call("cudaStreamWaitEvent", wait, at(3_000))];
        self.events.extend(calls);
        let args = json!({
            "cuda_sync_kind": "Stream Wait Event", "stream": to, "wait_on_stream": from,
            "wait_on_cuda_event_record_corr_id": record, "correlation": wait, "device": 0,
        });
        self.events.push(complete("cuda_sync", "Stream Wait Event", (json!(0), to), at(3_000), &args));
    }

    fn kernel(&mut self, operator: &Operator, id: u64, name: &str, call: Span, span: Span) {
        self.ids += 1;
        let correlation = self.ids;
        let args = json!({"External id": id, "correlation": correlation});
        self.events.push(on_host("cuda_runtime", "cudaLaunchKernel", self.rank, call, &args));
        let stream = if operator.collective.is_some() { COMM } else { COMPUTE };
        let mut args = json!({"External id": id, "correlation": correlation, "device": 0, "stream": stream});
        self.note_collective(operator, &mut args);
        self.events.push(complete("kernel", name, (json!(0), stream), span, &args));
        self.exchanges += u64::from(operator.collective.is_some());
    }

    fn note_collective(&self, operator: &Operator, args: &mut Value) {
        let Some(collective) = operator.collective else { return };
        args["Collective name"] = json!(collective.name);
        args["In msg nelems"] = json!(collective.elements);
        args["Out msg nelems"] = json!(collective.elements);
        args["Group size"] = json!(self.ranks);
        args["dtype"] = json!("Float");
        args["Process Group Name"] = json!("0");
        args["Seq"] = json!(self.exchanges + 1);
    }
}

fn on_host(category: &str, name: &str, rank: usize, span: Span, args: &Value) -> String {
    complete(category, name, (json!(100_000 + rank), THREAD), span, args)
}

fn complete(category: &str, name: &str, (pid, tid): (Value, u32), (start, end): Span, args: &Value) -> String {
    let micros = |ns: i64| ns as f64 / 1e3;
    json!({
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
        "ts": micros(start.0), "dur": micros(end.since(start).0), "args": args,
    })
    .to_string()
}

fn type_name(input: &Operand) -> &'static str {
    match input.dtype() {
        Some(DType::Fp32) => "float",
        Some(DType::Int64) => "long int",
        Some(DType::Int32) => "int",
        _ => "Scalar",
    }
}

fn concrete(input: &Operand) -> &str {
    match input {
        Operand::Value(text) => text,
        _ => "",
    }
}
