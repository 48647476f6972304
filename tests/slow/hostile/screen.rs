//! The screen on traces with impossible values under any edits: every view is drawn, none of a figure that cannot be.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use ratatui::layout::Size;
use retime::tui::{Depth, ScriptedScreen, Style};
use retime_core::graph::BuildOptions;
use retime_core::scenario::{Scenario, parse_step};

use super::{drawn, random};
use crate::support::engine;

/// Traces that are tried.
const TRACES: u32 = 120;
/// Views and what is pressed in them: along the rows, other orders and groups, a row opened, what stands behind it.
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
const IN_EACH: &str = "<down><down>s<end>v<home><enter>W<esc><esc>";
/// What lies over the views.
const OVERLAYS: [&str; 8] = ["b", "Z", "A", "S", "?", "c", "<tab>", "/a<enter>n<esc>"];

/// Walks through the screen of a trace under edits.
fn walk(screen: &mut ScriptedScreen) -> Result<(), String> {
    let seen = |screen: &mut ScriptedScreen, keys: &str| {
        screen.press(keys)?;
        screen.settle();
        let buffer = screen.draw();
        let shown: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        if shown.contains("NaN") || shown.contains("inf ") { Err(format!("after {keys}: {shown}")) } else { Ok(()) }
    };
    for (width, height) in [(120, 40), (40, 10), (200, 60)] {
        screen.resize(Size { width, height });
        for view in VIEWS {
            seen(screen, &format!(":view {view}<enter>"))?;
            seen(screen, IN_EACH)?;
        }
        for overlay in OVERLAYS {
            seen(screen, overlay)?;
            seen(screen, "<down><right><esc><esc>")?;
        }
        seen(screen, "1++++<left><left>----<right>g")?;
    }
    Ok(())
}

#[test]
fn impossible_values_are_drawn_in_every_view_as_possible_figures() {
    let engine = engine();
    let config = ProptestConfig { cases: TRACES, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, random());
    let tried = runner.run(&proptest::collection::vec(any::<u8>(), 40..600), |bytes| {
        let (lines, text) = drawn(&bytes);
        let Ok(loaded) = engine.load_bytes(text.as_bytes(), "hostile.json", &BuildOptions::default()) else {
            return Ok(());
        };
        let steps = lines.iter().map(|line| parse_step(line).unwrap()).collect();
        let scenario = Scenario { steps, ..Scenario::default() };
        let walked = catch_unwind(AssertUnwindSafe(|| {
            let style = Style { depth: Depth::True, ..Style::plain() };
            let size = Size { width: 120, height: 40 };
            walk(&mut ScriptedScreen::new(Arc::clone(&engine), vec![loaded], &scenario, &style, size))
        }));
        let walked = walked.unwrap_or_else(|_| Err("panics".to_owned()));
        prop_assert!(walked.is_ok(), "{lines:?} {walked:?}\n{text}");
        Ok(())
    });
    tried.unwrap();
}
