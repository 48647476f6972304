//! What stands beside `traceEvents`: rank, devices, base time. Everything else there is left unread.

use std::num::NonZeroU32;

use serde::Deserialize;

use crate::diagnostic::Severity;
use crate::intern::printable;
use crate::trace::builder::TraceBuilder;
use crate::trace::{RankPlace, RecordedDevice, StatedMemory};
use crate::units::{Bytes, TimeNs};

#[derive(Deserialize)]
struct Distributed {
    rank: Option<u32>,
    world_size: Option<u32>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Device {
    id: u32,
    name: String,
    total_global_mem: u64,
    num_sms: u32,
}

/// Batches that a step may be said to run.
const MOST_BATCHES: u32 = 1 << 20;

/// The largest relative error that is taken over: a band that reaches so far says nothing any more.
const MOST_ERROR: f64 = 100.0;

/// Takes the member `key` whose JSON text is `value` over into `trace`; a damaged one is noted and left out.
pub(super) fn member(key: &str, value: &[u8], trace: &mut TraceBuilder) {
    let result = match key {
        "distributedInfo" => serde_json::from_slice::<Distributed>(value).map(|found| {
            trace.rank = found.rank.map(|rank| RankPlace { rank, world_size: found.world_size });
        }),
        "deviceProperties" => serde_json::from_slice::<Vec<Device>>(value).map(|found| {
            trace.devices = found.into_iter().map(Device::recorded).collect();
        }),
        // What made the times up, in a trace that was exported rather than recorded, and the step that it is about.
        "retimePredicted" => {
            serde_json::from_slice::<String>(value).map(|text| trace.predicted = Some(printable(&text)))
        }
        "retimeError" => {
            let told = serde_json::from_slice::<f64>(value).and_then(|error| match error {
                0.0.. => Ok(error.min(MOST_ERROR)),
                _ => Err(serde::de::Error::custom("no prediction is off by less than nothing")),
            });
            told.map(|error| trace.predicted_error = Some(error))
        }
        "retimeMemory" => {
            serde_json::from_slice::<StatedMemory>(value).map(|stated| trace.stated_memory = Some(stated.printable()))
        }
        "retimeBatches" => {
            let told = serde_json::from_slice::<NonZeroU32>(value).and_then(|batches| match batches.get() {
                0..=MOST_BATCHES => Ok(batches),
                _ => Err(serde::de::Error::custom("more batches than a step runs")),
            });
            told.map(|batches| trace.batches = Some(batches))
        }
        "retimeIteration" => serde_json::from_slice::<String>(value).map(|name| trace.iteration = Some(name)),
        // What times count from; they are absolute without it.
        "baseTimeNanoseconds" => serde_json::from_slice::<i64>(value).map(|base| trace.origin = TimeNs(base)),
        _ => Ok(()),
    };
    if let Err(error) = result {
        trace.diagnostics.add(Severity::Warning, "damaged-metadata", key, None, || {
            format!("`{}` is not as expected ({error}); it was left out", printable(key))
        });
    }
}

impl Device {
    fn recorded(self) -> RecordedDevice {
        RecordedDevice {
            id: self.id,
            name: printable(&self.name),
            memory: Bytes(self.total_global_mem),
            sm_count: self.num_sms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_devices_and_base_time_are_read_and_damage_is_noted() {
        let mut trace = TraceBuilder::default();
        member("distributedInfo", br#"{"backend": "nccl", "rank": 3, "world_size": 8}"#, &mut trace);
        let device = br#"[{"id": 1, "name": "GPU\u001b[2J", "totalGlobalMem": 10, "numSms": 4}]"#;
        member("deviceProperties", device, &mut trace);
        member("baseTimeNanoseconds", b"\"soon\"", &mut trace);
        assert_eq!(trace.rank, Some(RankPlace { rank: 3, world_size: Some(8) }));
        assert_eq!((trace.devices[0].name.as_str(), trace.devices[0].sm_count), ("GPU␛[2J", 4));
        assert_eq!((trace.origin, trace.diagnostics.count("damaged-metadata")), (TimeNs(0), 1));
    }
}
