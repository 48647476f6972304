//! Tables of kernels by ROCm's rocprofv3.

use retime_core::trace::{self, Category, Trace, TrackKind};
use retime_core::units::{DurNs, TimeNs};

use crate::support::input;

fn load(bytes: &[u8]) -> Trace {
    trace::load_bytes(bytes, "made_up_kernel_trace.csv").unwrap()
}

#[test]
fn every_row_is_a_kernel_on_its_stream_or_skipped_with_a_reason() {
    let trace = load(&std::fs::read(input("rocprofv3_kernel_trace.csv")).unwrap());
    assert_eq!((trace.format, trace.events_in_file, trace.skipped_events), ("rocprofv3", 4, 1));
    assert_eq!(trace.diagnostics.count("damaged-row"), 1, "the last row has no start");
    let kernels: Vec<_> = trace.events.ids().map(|id| trace.events.get(id)).collect();
    assert_eq!(
        kernels.iter().map(|it| (it.start, it.dur)).collect::<Vec<_>>(),
        [(TimeNs(0), DurNs(40_000)), (TimeNs(41_000), DurNs(8_500)), (TimeNs(41_500), DurNs(3_000))]
    );
    assert!(kernels.iter().all(|it| it.category == Category::Kernel));
    assert_eq!(trace.names.get(kernels[1].name), "void relu<float>(float*, float const*, int)");
    let tracks = kernels.iter().map(|it| trace.tracks[it.track.0 as usize].kind);
    let stream = |stream| TrackKind::Stream { device: 4, stream };
    assert_eq!(tracks.collect::<Vec<_>>(), [stream(1), stream(1), stream(2)]);
    let args = trace.kernels.get(trace.events.ids().nth(1).unwrap()).unwrap();
    assert_eq!((args.grid, args.block, args.registers), ([4, 1, 1], [256, 1, 1], 16), "a grid is counted in blocks");
}

#[test]
fn a_time_that_no_clock_shows_is_left_out_however_few_the_others_are() {
    let text = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n\
                \"KERNEL_DISPATCH\",1,1,\"a\",10,20\n\"KERNEL_DISPATCH\",1,1,\"b\",15,30\n\
                \"KERNEL_DISPATCH\",1,1,\"c\",9223372036854775000,9223372036854775807\n";
    let trace = load(text.as_bytes());
    assert_eq!((trace.events.len(), trace.diagnostics.count("stray-time")), (2, 1));
}

#[test]
fn without_streams_queues_tell_what_runs_in_order() {
    let text = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n\
                \"KERNEL_DISPATCH\",1,139690710949888,\"a\",10,20\n\"KERNEL_DISPATCH\",1,3,\"b\",15,30\n";
    let trace = load(text.as_bytes());
    let streams: Vec<TrackKind> = trace.tracks.iter().map(|track| track.kind).collect();
    assert_eq!(streams, [139_690_710_949_888, 3].map(|stream| TrackKind::Stream { device: 1, stream }));
}

const TITLES: &str =
    "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n";

fn row(agent: u32, name: &str, correlation: u32, start: u64) -> String {
    format!("\"KERNEL_DISPATCH\",\"Agent {agent}\",1,{name},{correlation},{start},{}\n", start + 10)
}

#[test]
fn rows_that_are_there_already_are_skipped_and_devices_have_correlation_ids_of_their_own() {
    let rows = [row(4, "a", 1, 10), row(4, "b", 2, 30), row(5, "a", 1, 10), row(5, "b", 2, 30), row(4, "b", 2, 50)];
    let trace = load(format!("{TITLES}{}{}", rows.concat(), rows[1]).as_bytes());
    assert_eq!((trace.events_in_file, trace.skipped_events, trace.diagnostics.count("repeated-row")), (6, 1, 1));
    let ids: Vec<u32> = trace.events.ids().map(|id| trace.events.correlation(id)).collect();
    let distinct: std::collections::BTreeSet<u32> = ids.iter().copied().collect();
    assert_eq!((ids.len(), distinct.len()), (5, 4), "one call launched two kernels on one device: {ids:?}");
}

#[test]
fn a_quote_that_is_not_closed_counts_the_rows_that_it_takes_in() {
    let rows = [row(4, "a", 1, 10), row(4, "\"b", 2, 30), row(4, "a", 3, 50), row(4, "a", 4, 70)];
    let trace = load(format!("{TITLES}{}", rows.concat()).as_bytes());
    assert_eq!((trace.events_in_file, trace.skipped_events, trace.events.len()), (4, 2, 2));
    assert!(trace.diagnostics.count("damaged-row") >= 1);
}

#[test]
fn agents_and_queues_stay_apart_whatever_they_go_by() {
    let row = |agent: &str, queue: &str, start: u64| {
        format!("\"KERNEL_DISPATCH\",\"{agent}\",\"{queue}\",a,{},{start},{}\n", 1_u64 << 33, start + 10)
    };
    let rows = [("0x7", "1"), ("0x8", "1"), ("GPU-7f", "q"), ("GPU-80", "q"), ("0x7", "1"), ("GPU-80", "q")];
    let rows: String = rows.iter().zip(1..).map(|((agent, queue), at)| row(agent, queue, 20 * at)).collect();
    let trace = load(format!("{TITLES}{rows}").as_bytes());
    let tracks: Vec<TrackKind> =
        trace.events.ids().map(|id| trace.tracks[trace.events.track(id).0 as usize].kind).collect();
    let stream = |device, stream| TrackKind::Stream { device, stream };
    assert_eq!(tracks[..2], [stream(7, 1), stream(8, 1)]);
    let distinct: std::collections::BTreeSet<String> = tracks.iter().map(|kind| format!("{kind:?}")).collect();
    assert_eq!((distinct.len(), tracks[0] == tracks[4], tracks[3] == tracks[5]), (4, true, true));
    let ids: Vec<u32> = trace.events.ids().map(|id| trace.events.correlation(id)).collect();
    assert!(ids.iter().all(|&id| id != 0) && ids[0] == ids[4] && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn processes_have_streams_and_correlation_ids_of_their_own() {
    for column in ["Guid", "Process_Id"] {
        let row =
            |process: &str, correlation: u32, start: u64| format!("\"{process}\",{}", row(4, "a", correlation, start));
        let rows = [row("aa", 1, 10), row("bb", 1, 12), row("aa", 2, 30), row("bb", 1, 32)];
        let trace = load(format!("\"{column}\",{TITLES}{}", rows.concat()).as_bytes());
        let tracks: Vec<u32> = trace.events.ids().map(|id| trace.events.track(id).0).collect();
        let ids: Vec<u32> = trace.events.ids().map(|id| trace.events.correlation(id)).collect();
        assert_eq!((tracks, trace.tracks.len()), (vec![0, 1, 0, 1], 2), "{column}");
        assert!(ids[0] != ids[1] && ids[1] == ids[3], "one call launched two kernels of one process: {ids:?}");
    }
}

#[test]
fn a_second_column_of_one_title_is_refused() {
    let text = format!("\"End_Timestamp\",{TITLES}5,{}", row(4, "a", 1, 10));
    let error = trace::load_bytes(text.as_bytes(), "made_up_kernel_trace.csv").unwrap_err().to_string();
    assert!(error.contains("one column `End_Timestamp`, not two"), "{error}");
}
