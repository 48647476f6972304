//! Random keys, mouse, pastes and sizes on the screen: it goes on, holds no more memory than it may, and ends when told to.
//!
//! `RETIME_MONKEY=SECONDS` gives each trace so long. Of three minutes and more, the median of what it holds in the last third is held against
//! the second third: what was opened by then stays, what leaks grows by half again, and one large edit is for a while.
#![cfg(all(feature = "tui", target_os = "linux"))]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::drawn;
use crate::support::pty::{Session, cells, size};
use crate::support::samples;

/// How long each trace is played with, where nobody says.
const SECONDS: u64 = 10;
/// Memory that the program is told to hold at most.
const CEILING: &str = "400MiB";
/// What it never reaches: that.
const MOST_BYTES: u64 = 400 << 20;
/// Thirds of a shorter time say little of what stays in use.
const LONG: Duration = Duration::from_secs(180);
/// How much more than in the second third may be held in the last, in percent.
const MOST_PERCENT: u64 = 120;
/// Traces, each with a seed of its own.
const TRACES: [&str; 6] = [
    "",
    "mlp-b256-fp32-cpu.kineto.json.gz",
    "dlrm-ddp-b256-on-v100.predicted.json.gz",
    "public",
    "dlrm-ddp-b256-fp32-cpu.kineto.json.gz",
    "alexnet.toml",
];

const LETTERS: &str = "abcdefghijklmnoprstuvwxyzABCDEFGHIJKLMNOPRSTUVWXYZ0123456789/?:;,.<>[]{}()+-=*&^%$#@!~`'\"\\|_ ";
const SPECIAL: [&str; 20] = [
    "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F", "\t", "\x1b[Z", "\r", "\x1b",
    "\x7f", "\x1b[3~", "\x15", "\x17", "\x01", "\x05", "\x12", "\x0c",
];
const LINES: [&str; 16] = [
    "scale kind=kernel x0.5",
    "scale * x0.9",
    "accumulate 2",
    "accumulate 64",
    "resize-batch 64",
    "scale-ranks 16",
    "swap-gpu H200",
    "checkpoint phase=forward segments=4",
    "gaps",
    "board",
    "sweep",
    "advise",
    "compare",
    "scenario new other",
    "undo",
    "open .",
];

/// Numbers without a pattern, the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % count as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// What a user may do next.
    fn keys(&mut self) -> String {
        match self.below(100) {
            0..45 => char::from(self.of(LETTERS.as_bytes())).to_string(),
            45..70 => self.of(&SPECIAL).to_owned(),
            70..85 => {
                let (button, end) = (self.of(&[0, 0, 0, 1, 2, 32, 35, 64, 65]), self.of(&['M', 'm']));
                format!("\x1b[<{button};{};{}{end}", 1 + self.below(200), 1 + self.below(60))
            }
            85..90 => format!("\x1b[200~{}\x1b[201~", self.of(&LINES).repeat(self.of(&[1, 5, 400]))),
            _ => format!(":{}{}", self.of(&LINES), self.of(&["\r", "\r", "\t", "\x1b"])),
        }
    }
}

/// The program on a trace, in a folder where it may write.
fn start(folder: &Path, trace: Option<&Path>) -> Session {
    let trace = trace.map_or(String::new(), |path| format!("'{}'", path.display()));
    let program = env!("CARGO_BIN_EXE_retime");
    let line = format!("cd '{}' && exec '{program}' --max-memory {CEILING} {trace}", folder.display());
    let session = Session::start("sh", &["-c", &line]);
    session.wait_until("the screen", || session.parser.lock().unwrap().screen().alternate_screen());
    session
}

/// Plays until the time is over.
///
/// # Returns
/// The memory that was held after each key, in each third of the time.
fn play(folder: &Path, trace: Option<&Path>, dice: &mut Dice, time: Duration) -> [Vec<u64>; 3] {
    let (mut session, began, mut all) = (start(folder, trace), Instant::now(), [const { Vec::new() }; 3]);
    let mut pressed = Vec::new();
    while began.elapsed() < time {
        if let Some(status) = session.child.try_wait().unwrap() {
            assert!(status.success(), "{status:?} after {pressed:?}\n{}", session.contents());
            session = start(folder, trace);
        }
        if dice.below(100) == 0 {
            let (wide, high) = (dice.of(&[1, 10, 40, 80, 100, 200]), dice.of(&[1, 5, 10, 24, 60]));
            session.parser.lock().unwrap().screen_mut().set_size(cells(high), cells(wide));
            let _ = session.master.resize(size(wide, high));
        }
        let keys = dice.keys();
        let _ = std::io::Write::write_all(&mut session.writer, keys.as_bytes());
        pressed.push(keys.chars().take(60).collect::<String>());
        pressed.drain(..pressed.len().saturating_sub(50));
        let held = session.held();
        assert!(held < MOST_BYTES, "{} MiB are held after {pressed:?}", held >> 20);
        let third = (3.0 * began.elapsed().as_secs_f64() / time.as_secs_f64()) as usize;
        all[third.min(2)].push(held);
        std::thread::sleep(Duration::from_millis(3));
    }
    session.signal("TERM");
    let told = Instant::now();
    while session.child.try_wait().unwrap().is_none() {
        assert!(told.elapsed() < Duration::from_secs(4), "it does not leave after {pressed:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    session.assert_restored();
    all
}

#[test]
fn random_keys_neither_stop_the_screen_nor_make_it_grow() {
    let seconds = std::env::var("RETIME_MONKEY").ok().map(|text| text.parse().expect("RETIME_MONKEY=SECONDS"));
    let cases = TRACES.iter().zip(1_u64..).map(|(name, seed)| ((*name).to_owned(), (*name, seed)));
    for (name, seed) in drawn(cases.collect()) {
        let folder = tempfile::tempdir().unwrap();
        let path: Option<PathBuf> = (!name.is_empty()).then(|| samples().join(name));
        let time = Duration::from_secs(seconds.unwrap_or(SECONDS));
        let mut thirds = play(folder.path(), path.as_deref(), &mut Dice(seed), time);
        for held in &mut thirds {
            held.sort_unstable();
        }
        let median = thirds.each_ref().map(|held| held[held.len() / 2]);
        let told = thirds
            .map(|held| format!("{} to {} MiB", held[held.len() / 2] >> 20, held[held.len() - 1] >> 20))
            .join(", ");
        println!("{name:?}, seed {seed}: median to most {told} in each third of {time:?}");
        assert!(time < LONG || median[2] * 100 <= median[1] * MOST_PERCENT, "{name}: {told}");
    }
}
