//! A training that waits for its data against the same one with workers that load it.

use retime::session::{Engine, EngineError, Loaded, Summary};
use retime_core::graph::IterationChoice;
use retime_core::scenario::Scenario;

use super::sources::Sources;
use super::{Answer, Constants, Row, open};

const FAMILY: &str = "data loader";
const LIMIT: f64 = 0.10;

/// Takes the loader's time out of the trace without workers and compares with the median step of the one with workers.
pub(crate) fn check(engine: &Engine, sources: &Sources, answer: &mut Answer) {
    let Some((without, with)) = &sources.loader else { return };
    let row = || -> Result<Row, EngineError> {
        let loaded = open(engine, without, IterationChoice::Default)?;
        let target: Vec<Loaded> =
            (0..STEPS).map_while(|step| open(engine, with, IterationChoice::Index(step)).ok()).collect();
        let mut periods: Vec<i64> = target.iter().map(|loaded| loaded.graph.measured.0).collect();
        periods.sort_unstable();
        let expected = periods.get(periods.len() / 2).copied().unwrap_or_default() as f64;
        let edit = Scenario::parse(["remove name~DataLoader"]).unwrap_or_default();
        let Summary { steady_ns, steady_band, .. } = engine.evaluate(&loaded, &edit, 0).summary;
        let [got, low, high] = [steady_ns, steady_band.low_ns, steady_band.high_ns].map(|time| time.0 as f64);
        let check = "workers 0 without the loader's time, against workers 4".to_owned();
        let unchanged = loaded.graph.measured.0 as f64;
        let row = Row::new(FAMILY, check, (expected, got), LIMIT, (&loaded.title, Constants::HeldOut));
        Ok(row.against(unchanged, unchanged).within([low, high]))
    };
    match row() {
        Ok(row) => {
            answer.rows.push(row);
            answer.sum_up(FAMILY, LIMIT);
        }
        Err(error) => answer.not_checked.push(format!("data loader: {error}")),
    }
}

/// Most steps looked at.
const STEPS: usize = 8;
