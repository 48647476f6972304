//! The screen on a job of 64 ranks and 812 tables: everything can be found, sorted, unfolded and moved, what there is no room
//! for is counted, and a frame takes no longer than there are cells.
#![cfg(feature = "tui")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::layout::Size;
use retime::session::synthetic::{JobSpec, Machine, Network, SyntheticJob};
use retime::tui::{Depth, ScriptedScreen, Style};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use crate::screen_samples::text;
use crate::support::engine;

const RANKS: u32 = 64;
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn open((width, height): (u16, u16)) -> ScriptedScreen {
    let engine = engine();
    let machine = Machine::of(&engine, "V100").unwrap();
    let spec = JobSpec { ranks: RANKS, local_batch: 256, ..JobSpec::default() };
    let folder = tempfile::tempdir().unwrap();
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    let (files, build) = (OpenOptions::default(), BuildOptions::default());
    let loaded = engine.load(&[folder.path().to_owned()], &files, &build).unwrap();
    let style = Style { depth: Depth::True, ..Style::plain() };
    let size = Size { width, height };
    let mut screen = ScriptedScreen::new(Arc::clone(&engine), loaded, &Scenario::default(), &style, size);
    screen.settle();
    screen
}

/// What is on the screen after some keys.
fn after(screen: &mut ScriptedScreen, keys: &str) -> String {
    screen.press(keys).unwrap();
    screen.settle();
    text(screen)
}

/// The words of the line that the cursor is on.
fn chosen(shown: &str) -> Vec<String> {
    let pane = |line: &str| line.rsplit(['│', '┤']).find(|part| part.starts_with('▸')).map(str::to_owned);
    let row = shown.lines().filter_map(pane).next_back().unwrap_or_default();
    row.trim_start_matches('▸').split_whitespace().map(str::to_owned).collect()
}

/// A duration such as `1.01`, `ms` in µs.
fn micros(words: &[String]) -> f64 {
    let units = [("ns", 1e-3), ("µs", 1.0), ("ms", 1e3)];
    let (_, factor) = units.into_iter().find(|(unit, _)| words[1] == *unit).unwrap();
    words[0].parse::<f64>().unwrap() * factor
}

#[test]
fn a_table_among_812_is_found_sorted_and_moved_with_its_ranks_in_sight() {
    for size in SIZES {
        let mut screen = open(size);
        assert!(after(&mut screen, "7").contains("812 tables on 64 ranks"));
        let found = after(&mut screen, "/t640<enter>");
        assert_eq!(chosen(&found)[..2], ["t640", "r50"], "{size:?}\n{found}");
        let mut before = f64::MAX;
        after(&mut screen, "s");
        for row in 0..40 {
            let words = chosen(&after(&mut screen, if row == 0 { "" } else { "<down>" }));
            let took = micros(&words[2..4]);
            assert!(took <= before, "{size:?}, row {row}: {took} after {before}");
            before = took;
        }
        after(&mut screen, "/t640<enter>");
        let moved = after(&mut screen, ">");
        assert_eq!(chosen(&moved)[..2], ["t640", "r51"], "{size:?}\n{moved}");
        for shown in ["1 reshard-tables t640:r51", "1 table moved, look-ups r50 -13 %, r51 +", "/64"] {
            assert!(moved.contains(shown), "{size:?}: {shown:?}\n{moved}");
        }
        for rank in ["r50  ◂", "r51  ◂"] {
            assert!(moved.contains(rank), "{size:?}: {rank:?} is not in sight\n{moved}");
        }
        assert!(after(&mut screen, "u").contains("undone"), "{size:?}");
    }
}

#[test]
fn every_rank_is_a_row_that_can_be_found_and_sorted() {
    for size in SIZES {
        let mut screen = open(size);
        let shown = after(&mut screen, "R");
        assert!(shown.contains(" of 64 ") && shown.contains("v each rank"), "{size:?}\n{shown}");
        let found = after(&mut screen, "v/r7<enter>");
        assert_eq!(chosen(&found)[0], "r7", "{size:?}\n{found}");
        let mut seen = Vec::new();
        after(&mut screen, ":sort rank<enter>");
        for row in 0..RANKS {
            let words = chosen(&after(&mut screen, if row == 0 { "" } else { "<down>" }));
            seen.push(words[0].clone());
        }
        let all: Vec<String> = (0..RANKS).map(|rank| format!("r{rank}")).collect();
        assert_eq!(seen, all, "{size:?}");
        after(&mut screen, ":sort waits<enter>");
        let mut before = f64::MAX;
        for row in 0..RANKS {
            let words = chosen(&after(&mut screen, if row == 0 { "" } else { "<down>" }));
            // From a width of 100 on the iteration stands before it.
            let waits = micros(if size.0 < 100 { &words[1..3] } else { &words[3..5] });
            assert!(waits <= before, "{size:?}, row {row}: {waits} after {before}");
            before = waits;
        }
        assert!(after(&mut screen, "v").contains("v each rank"), "{size:?}");
    }
}

/// The ranks whose rows are shown on the timeline, and how many rows are said to be above and below.
fn rows_of_ranks(shown: &str) -> (usize, usize) {
    let number = |after: char| {
        let rest = shown.split(after).skip(1).filter_map(|rest| {
            let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<usize>().ok()
        });
        rest.into_iter().next().unwrap_or(0)
    };
    let ranks = shown.lines().filter(|line| line.contains("▸ r") || line.contains("▸ ! r")).count();
    (ranks, number('↑') + number('↓'))
}

#[test]
fn a_rank_is_a_row_found_by_its_name_and_unfolded() {
    for size in SIZES {
        let mut screen = open(size);
        let shown = text(&screen);
        let (ranks, hidden) = rows_of_ranks(&shown);
        // The last line says how many are below it in place of its name.
        assert_eq!(ranks + 1 + hidden, RANKS as usize, "{size:?}\n{shown}");
        let found = after(&mut screen, "/r55<enter>");
        assert!(found.contains("▌▸ r55 ") || found.contains("▌▸ ! r55 "), "{size:?}\n{found}");
        let unfolded = after(&mut screen, "<enter>");
        for lane in ["r55 stream 7", "r55 comm 20"] {
            assert!(unfolded.contains(lane), "{size:?}: {lane}\n{unfolded}");
        }
    }
}

#[test]
fn a_frame_of_64_ranks_costs_what_its_cells_cost() {
    const MOST: Duration = Duration::from_millis(200);
    let mut screen = open((200, 60));
    for keys in ["1", "7", "R", "v", "2", "3", "4", "5", "L", "F", "t"] {
        after(&mut screen, keys);
        let frame = |_| {
            let start = Instant::now();
            screen.draw();
            start.elapsed()
        };
        let took = (0..3).map(frame).min().unwrap_or_default();
        println!("{keys}: {took:?}");
        assert!(took < MOST, "a frame behind {keys:?} takes {took:?}");
    }
}

#[test]
fn gaps_of_many_ranks_say_where_they_are() {
    let mut screen = open((120, 40));
    let shown = after(&mut screen, "3");
    let below = shown.split("whatever the cause").nth(1).unwrap();
    let named: Vec<&str> =
        below.split_whitespace().filter(|word| word.starts_with('r') && word[1..].parse::<u32>().is_ok()).collect();
    let mut ranks = named.clone();
    ranks.sort_unstable();
    ranks.dedup();
    assert!(ranks.len() > 10 && ranks.len() == named.len(), "{named:?}\n{shown}");
}
