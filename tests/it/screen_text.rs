//! Text of a trace on the screen: whatever its names hold, no cell gets a command, and none shifts the cells behind it.
#![cfg(feature = "tui")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use retime::tui::{Depth, ScriptedScreen, Style};
use retime_core::graph::BuildOptions;
use retime_core::intern::is_printable;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;
use serde_json::{Value, json};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::support::engine;

/// Every class of characters that a terminal takes for something else than a letter.
const HOSTILE: [&str; 14] = [
    "esc\u{1b}[31m\u{1b}]0;title\u{7}",
    "c1\u{9b}2J\u{85}\u{90}x\u{9c}",
    "lines\r\n\t\u{0}\u{8}\u{c}\u{2028}",
    "override\u{202e}gnihton\u{202c}",
    "isolate\u{2066}abc\u{2069}\u{200f}\u{61c}",
    "tags\u{e0041}\u{e0042}\u{e007f}",
    "zero\u{200b}\u{feff}\u{2060}\u{ad}\u{34f}width",
    "\u{301}leading e\u{301}\u{323} accents",
    "字字字宽宽宽字字字宽宽宽字字字宽宽宽字字字宽宽宽字字字宽宽宽",
    "👩\u{200d}👩\u{200d}👧 👍\u{1f3fd} 🇩🇪 1\u{fe0f}\u{20e3}",
    "cloud☁\u{fe0f} heart❤\u{fe0f}\u{e0101}",
    "jamo\u{1100}\u{1161}\u{11a8}\u{115f}\u{1160}",
    "क्षि ทั้ں ཀྵ ﷽ لا",
    "stacked",
];

/// A name of one class, with as many marks on one letter as somebody might think of.
fn name(number: usize) -> String {
    let text = HOSTILE[number % HOSTILE.len()];
    if text == "stacked" { format!("Z{}", "\u{335}".repeat(5000)) } else { text.to_owned() }
}

/// Two ranks whose every name is hostile.
fn write(folder: &Path) {
    for rank in 0..2 {
        let mut events = vec![
            json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": name(rank)}}),
            json!({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": name(rank + 3)}}),
        ];
        let mut complete = |name: &str, cat: &str, tid: u32, ts: usize, dur: usize, args: Value| {
            let pid = u8::from(tid != 7);
            events.push(json!({"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}));
        };
        for step in 0..2 {
            let begin = 1000 + 10_000 * step;
            complete(&format!("ProfilerStep#{step}"), "user_annotation", 2, begin, 10_000, json!({}));
            complete(
                &format!("nn.Module: {}", name(step)),
                "python_function",
                2,
                begin + 1,
                9000,
                json!({"Python id": 1}),
            );
            for index in 0..30 {
                let (start, id) = (begin + 20 + 300 * index, 100 * step + index + 1);
                let shape = json!({"External id": id, "Input Dims": [[64, 128], [128, 128]], "Input type": [name(index), "float"]});
                let operator =
                    if index % 3 == 0 { "aten::linear".to_owned() } else { format!("aten::{}", name(index)) };
                complete(&name(index + 5), "user_annotation", 2, start - 1, 250, json!({}));
                complete(&operator, "cpu_op", 2, start, 200, shape);
                complete("cudaLaunchKernel", "cuda_runtime", 2, start + 20, 10, json!({"correlation": id}));
                let device = json!({"correlation": id, "stream": 7, "device": 0, "External id": id});
                complete(&name(index), "kernel", 7, start + 35, 200, device);
            }
            let reduced = json!({"correlation": 100 * step + 99, "stream": 7, "device": 0, "Collective name": name(step), "Process Group Name": name(step + 1), "Group size": 2, "In msg nelems": 64, "Out msg nelems": 64, "dtype": name(step + 2)});
            complete("cudaLaunchKernel", "cuda_runtime", 2, begin + 9500, 10, json!({"correlation": 100 * step + 99}));
            complete("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", "kernel", 7, begin + 9550 + rank, 300, reduced);
        }
        let document = json!({
            "deviceProperties": [{"id": 0, "name": name(rank), "totalGlobalMem": 42_949_672_960_u64, "numSms": 108}],
            "distributedInfo": {"backend": name(rank), "rank": rank, "world_size": 2},
            "traceEvents": events,
        });
        fs::write(folder.join(format!("rank{rank} {}.pt.trace.json", name(3).replace('\0', ""))), document.to_string())
            .unwrap();
    }
}

/// What is wrong with a cell, if anything.
fn fault(buffer: &Buffer, x: u16, y: u16) -> Option<&'static str> {
    let symbol = buffer[(x, y)].symbol();
    let widths = || symbol.chars().map(|c| c.width().unwrap_or(0));
    let width = symbol.width();
    let is_covered = |at: u16| at >= buffer.area.width || buffer[(at, y)].symbol() != " ";
    match width {
        _ if !is_printable(symbol) => Some("holds what a terminal takes for something else"),
        0 => Some("takes no cell"),
        _ if widths().sum::<usize>() != width => Some("is shown in another width than that of its letters"),
        _ if widths().next() == Some(0) => Some("begins with a mark"),
        _ if symbol.chars().count() > 32 => Some("has more marks than any script"),
        _ if (1..width as u16).any(|by| is_covered(x + by)) => Some("is half covered"),
        _ => None,
    }
}

#[test]
fn no_name_of_a_trace_shifts_a_cell_or_reaches_the_terminal_as_a_command() {
    const VIEWS: [&str; 14] = [
        "timeline",
        "path",
        "gaps",
        "operators",
        "roofline",
        "systems",
        "layers",
        "memory",
        "sweep",
        "tables",
        "compare",
        "advise",
        "ranks",
        "what-if",
    ];
    const IN_EACH: [&str; 6] = ["", "<down>v", "<end><enter>", "W<esc><esc>", "/e<enter>n<esc>", "f<esc>"];
    const OVER_ALL: [&str; 8] = ["b", "Z", "A", "S", "?", "c", ":scale name~", ":open "];
    let engine = engine();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run \u{1b}[2J\u{202e}cod e\u{301} 字 👍\u{1f3fd}");
    fs::create_dir(&folder).unwrap();
    write(&folder);
    let loaded = engine.load(&[folder], &OpenOptions::default(), &BuildOptions::default()).unwrap();
    assert_eq!(loaded[0].graph.ranks.len(), 2, "one job");
    let steps = [format!("scale name=\"{}\" x0.5", name(8)), "scale kind=kernel x0.9".to_owned()];
    let scenario = Scenario::parse(steps.iter().map(String::as_str)).unwrap();
    let style = Style { depth: Depth::True, ..Style::plain() };
    let size = Size { width: 80, height: 24 };
    let mut screen = ScriptedScreen::new(Arc::clone(&engine), loaded, &scenario, &style, size);
    screen.settle();
    let mut look = |keys: &str| {
        screen.press(keys).unwrap();
        screen.settle();
        let buffer = screen.draw();
        for (y, x) in (0..buffer.area.height).flat_map(|y| (0..buffer.area.width).map(move |x| (y, x))) {
            if let Some(fault) = fault(&buffer, x, y) {
                panic!("after {keys}: {:?} at {x}, {y} {fault}", buffer[(x, y)].symbol());
            }
        }
        buffer.content().iter().any(|cell| !cell.symbol().is_ascii() && cell.symbol().width() == 2)
    };
    let mut wide = 0;
    for view in VIEWS {
        look(&format!(":view {view}<enter>"));
        wide += IN_EACH.iter().filter(|keys| look(keys)).count();
    }
    for keys in OVER_ALL {
        look(keys);
        look("<down><down>");
        look("<esc><esc>");
    }
    assert!(wide > 20, "names are on the screen: {wide}");
}
