//! The program killed, or its terminal closed, at any moment: the saved session can be read, and what was edited is in it.
#![cfg(all(feature = "tui", unix))]

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use retime::session::SavedSession;

use crate::drawn;
use crate::support::pty::Session;

/// How often the program is killed.
const KILLS: u64 = 500;
/// How often its terminal is closed.
const HANG_UPS: u64 = 200;
/// What was edited this long ago is on the disk.
const KEPT: Duration = Duration::from_secs(1);
/// The latest moment, from the first edit on.
const LATEST_MS: u64 = 2_500;

/// Edits until the moment has come, as many as there is time for.
///
/// # Returns
/// When each was seen on the screen.
fn edit_until(session: &mut Session, moment: Duration) -> Vec<(String, Instant)> {
    let began = Instant::now();
    let mut done = Vec::new();
    for number in 1..=9 {
        let line = format!("scale * x0.9{number}");
        session.press(&format!(":{line}\r"));
        // In the list of steps, not on the line that it was typed on, and no preview any more.
        let is_done = |shown: &str| shown.contains(&line) && !shown.contains(&format!(":{line}"));
        while !is_done(&session.contents()) {
            if began.elapsed() >= moment {
                return done;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        done.push((line, Instant::now()));
    }
    std::thread::sleep(moment.saturating_sub(began.elapsed()));
    done
}

/// Which edits are on the disk.
fn saved(state: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(state.join("retime")) else { return Vec::new() };
    let paths = files.map(|file| file.unwrap().path());
    let mut steps = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml")) {
        let session = SavedSession::from_toml(&fs::read_to_string(&path).unwrap()).unwrap();
        steps.extend(session.scenario.steps.iter().map(ToString::to_string));
    }
    steps
}

/// Moments spread evenly, in an order that has no pattern.
fn moments(count: u64) -> impl Iterator<Item = Duration> {
    let named = (0..count).map(|number| (number.to_string(), Duration::from_millis(number * 997 % LATEST_MS)));
    drawn(named.collect())
}

/// Programs that run beside one another: most of the time they wait for the moment.
const AT_ONCE: usize = 4;

/// Tries `check` at `count` moments.
fn at_each(count: u64, check: impl Fn(Duration) + Sync) {
    let moments = Mutex::new(moments(count));
    let next = || moments.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(moment) = next() {
                    check(moment);
                }
            });
        }
    });
}

#[test]
fn a_kill_at_any_moment_damages_no_session_and_loses_no_edit_older_than_a_second() {
    at_each(KILLS, |moment| {
        let mut session = Session::open();
        let done = edit_until(&mut session, moment);
        let killed = Instant::now();
        session.signal("KILL");
        session.child.wait().unwrap();
        let saved = saved(session.state.path());
        let lost = done.iter().find(|(line, at)| killed.duration_since(*at) > KEPT && !saved.contains(line));
        assert!(lost.is_none(), "{moment:?}: {lost:?} is not among {saved:?}");
    });
}

#[test]
fn a_terminal_closed_at_any_moment_loses_no_edit_that_was_seen() {
    at_each(HANG_UPS, |moment| {
        let mut session = Session::open();
        let done = edit_until(&mut session, moment);
        let (mut child, state) = session.hang_up();
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{moment:?}: it runs without a terminal");
            std::thread::sleep(Duration::from_millis(5));
        };
        let saved = saved(state.path());
        let lost = done.iter().find(|(line, _)| !saved.contains(line));
        assert!(lost.is_none(), "{moment:?}: {lost:?} is not among {saved:?}: {status:?}");
    });
}
