//! Walks over all traces and whole fits, which take minutes: `cargo test --test slow`.
//!
//! `RETIME_SLOW=SEED:SECONDS` runs a sample instead: each test takes its cases in an order that the seed draws, and begins no
//! further one when its part of the seconds is over, on two cores. `.ci/run` does so with the commit as the seed, the same
//! cases first for the same seed.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what cannot be opened or built should fail its test"
)]

mod edits;
mod faults;
mod fits;
mod hostile;
mod kills;
mod laws;
mod monkey;
mod replay;
mod traces;

#[expect(dead_code, reason = "the quick tests share it and use more of it")]
#[path = "../it/support/mod.rs"]
mod support;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// Tests in this program, which share the seconds of a sample.
const TESTS: u32 = 19;
/// Tests that run at a time.
const AT_A_TIME: u32 = 2;

/// All cases of a test, or those that a sample takes; at least one.
fn drawn<T>(mut cases: Vec<(String, T)>) -> impl Iterator<Item = T> {
    let (began, sample) = (Instant::now(), Sample::wanted());
    if let Some(sample) = &sample {
        cases.sort_by_cached_key(|(name, _)| sample.place(name));
    }
    let mut is_first = true;
    let goes_on = move |_: &(String, T)| {
        let in_time = sample.as_ref().is_none_or(|sample| began.elapsed() < sample.each);
        std::mem::take(&mut is_first) || in_time
    };
    cases.into_iter().take_while(goes_on).map(|(_, case)| case)
}

/// Whether every case of every test is wanted.
fn is_whole() -> bool {
    Sample::wanted().is_none()
}

/// The seed of everything drawn at random: the same figures come of the same seed.
fn seed() -> u64 {
    Sample::wanted().map_or(0, |sample| sample.seed)
}

struct Sample {
    seed: u64,
    /// After this no test begins another case.
    each: Duration,
}

impl Sample {
    fn wanted() -> Option<Self> {
        let text = std::env::var("RETIME_SLOW").ok()?;
        let (seed, seconds) = text.split_once(':').expect("RETIME_SLOW=SEED:SECONDS");
        let seconds = Duration::from_secs(seconds.parse().expect("RETIME_SLOW=SEED:SECONDS, in whole seconds"));
        Some(Self {
            seed: seed.parse().expect("RETIME_SLOW=SEED:SECONDS, with a whole seed"),
            each: seconds * AT_A_TIME / TESTS,
        })
    }

    fn place(&self, name: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, name).hash(&mut hasher);
        hasher.finish()
    }
}
