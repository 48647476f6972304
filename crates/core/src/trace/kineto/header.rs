//! What stands beside `traceEvents`: rank, devices, base time. Everything else there is left unread.

use serde::Deserialize;

use crate::diagnostic::{Diagnostics, Severity};
use crate::intern::printable;
use crate::trace::{RankPlace, RecordedDevice};
use crate::units::Bytes;

/// The used members of the top level.
#[derive(Debug, Default)]
pub struct Header {
    /// `distributedInfo`.
    pub rank: Option<RankPlace>,
    /// `deviceProperties`.
    pub devices: Vec<RecordedDevice>,
    /// `baseTimeNanoseconds`: what times count from; 0 where they are absolute.
    pub base_ns: i64,
    /// `retimePredicted`: what made the times up, in a trace that was exported rather than recorded.
    pub predicted: Option<String>,
    /// `retimeIteration`: name of the step that an exported trace is about.
    pub iteration: Option<String>,
}

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

impl Header {
    /// Takes the member `key` whose JSON text is `value`; a damaged one is noted and left out.
    pub fn member(&mut self, key: &str, value: &[u8], diagnostics: &mut Diagnostics) {
        let result = match key {
            "distributedInfo" => serde_json::from_slice::<Distributed>(value).map(|found| {
                self.rank = found.rank.map(|rank| RankPlace { rank, world_size: found.world_size });
            }),
            "deviceProperties" => serde_json::from_slice::<Vec<Device>>(value).map(|found| {
                self.devices = found.into_iter().map(Device::recorded).collect();
            }),
            "retimePredicted" => {
                serde_json::from_slice::<String>(value).map(|text| self.predicted = Some(printable(&text)))
            }
            "retimeIteration" => serde_json::from_slice::<String>(value).map(|name| self.iteration = Some(name)),
            "baseTimeNanoseconds" => serde_json::from_slice::<i64>(value).map(|base| self.base_ns = base),
            _ => Ok(()),
        };
        if let Err(error) = result {
            diagnostics.add(Severity::Warning, "damaged-metadata", key, None, || {
                format!("`{}` is not as expected ({error}); it was left out", printable(key))
            });
        }
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
        let (mut header, mut found) = (Header::default(), Diagnostics::default());
        header.member("distributedInfo", br#"{"backend": "nccl", "rank": 3, "world_size": 8}"#, &mut found);
        header.member(
            "deviceProperties",
            br#"[{"id": 1, "name": "GPU\u001b[2J", "totalGlobalMem": 10, "numSms": 4}]"#,
            &mut found,
        );
        header.member("baseTimeNanoseconds", b"\"soon\"", &mut found);
        assert_eq!(header.rank, Some(RankPlace { rank: 3, world_size: Some(8) }));
        assert_eq!((header.devices[0].name.as_str(), header.devices[0].sm_count), ("GPU␛[2J", 4));
        assert_eq!((header.base_ns, found.count("damaged-metadata")), (0, 1));
    }
}
