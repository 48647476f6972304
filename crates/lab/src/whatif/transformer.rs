//! Published iteration times of transformers by batch and device: from one of them, the others follow by the ratio of the
//! kernel models' sums over the network's operators.

use retime::session::{Engine, read_table};
use retime_core::cost::Work;
use retime_core::cost::operators::{Reading, operator_work};
use retime_core::device::DeviceProfile;
use retime_core::graph::{DType, Operand, Operands};
use retime_fit::csv::{self, Table};

use super::sources::Sources;
use super::{Answer, Constants, Row, bands};

const BY_BATCH: &str = "published transformers by batch";
const BY_DEVICE: &str = "published transformers by device";
const BATCH_LIMIT: f64 = 0.10;
/// Error aimed at for iterations at another batch.
const BATCH_AIM: f64 = 0.03;
const DEVICE_LIMIT: f64 = 0.20;
/// Where times on other devices are predicted from.
const REFERENCE: &str = "Tesla_V100-PCIE-32GB";

/// Layers, hidden size and heads; the feed-forward part is four times as wide [model cards].
fn network(name: &str) -> Option<[u64; 3]> {
    Some(match name {
        "bert_large" => [24, 1024, 16],
        "gpt2_large" => [36, 1280, 20],
        "gpt3_xl" => [24, 2048, 24],
        "opt_13" => [24, 2048, 32],
        "gpt3_27" => [32, 2560, 32],
        _ => return None,
    })
}

/// A published time.
struct Point {
    device: String,
    model: String,
    mode: String,
    length: u64,
    batch: u64,
    time_ns: f64,
}

/// Predicts each time from the smallest batch on its device, and from the reference device at its batch.
pub(crate) fn check(engine: &Engine, sources: &Sources, answer: &mut Answer) {
    let Some(file) = &sources.transformers else { return };
    let points = match read_table(file).map(|text| Table::parse(&text)) {
        Ok(Ok(table)) => table.rows().filter_map(point).collect::<Vec<_>>(),
        Ok(Err(error)) => return answer.not_checked.push(format!("{}: {error}", file.display())),
        Err(error) => return answer.not_checked.push(error.to_string()),
    };
    for to in &points {
        let same = |from: &&Point| from.model == to.model && from.mode == to.mode && from.length == to.length;
        let smaller = points.iter().filter(same).filter(|from| from.device == to.device && from.batch < to.batch);
        if let Some(from) = smaller.min_by_key(|from| from.batch) {
            let check = format!("{}, batch {} → {}", to.title(), from.batch, to.batch);
            answer.rows.extend(row(engine, (from, to), (BY_BATCH, check), BATCH_LIMIT));
        }
        let reference = |from: &&Point| from.device == REFERENCE && to.device != REFERENCE && from.batch == to.batch;
        if let Some(from) = points.iter().filter(same).find(reference) {
            let check = format!("V100 to {}, batch {}", to.title(), to.batch);
            answer.rows.extend(row(engine, (from, to), (BY_DEVICE, check), DEVICE_LIMIT));
        }
    }
    answer.sum_up(BY_BATCH, BATCH_AIM);
    answer.sum_up(BY_DEVICE, super::swap::AIM);
}

fn point(row: csv::Row<'_>) -> Option<Point> {
    let plain = row.text("option").is_empty();
    plain.then_some(())?;
    Some(Point {
        device: row.text("device").to_owned(),
        model: row.text("model").to_owned(),
        mode: row.text("mode").to_owned(),
        length: row.number("seqlen").ok()? as u64,
        batch: row.number("batch").ok()? as u64,
        time_ns: row.number("e2e_latency_ms").ok().filter(|ms| *ms > 0.0)? * 1e6,
    })
}

impl Point {
    fn title(&self) -> String {
        format!("{} {} on {}", self.model, self.mode, self.device.replace('_', " "))
    }

    fn profile<'e>(&self, engine: &'e Engine) -> Option<&'e DeviceProfile> {
        engine.catalog.recognise(&self.device.replace('_', " ")).map(AsRef::as_ref)
    }

    /// The models' sum over the network's operators, in ns.
    fn modelled(&self, engine: &Engine) -> Option<f64> {
        let (layers, works) = self.works()?;
        Some(layers * sum(engine, &works, self.profile(engine)?)?)
    }

    /// How many layers, and how often each operator runs in one.
    fn works(&self) -> Option<(f64, Vec<(f64, Work)>)> {
        let [layers, hidden, heads] = network(&self.model)?;
        Some((layers as f64, layer([self.batch, self.length, hidden, heads], self.mode == "train")))
    }

    /// Half the width of the band around that sum, as a share of it.
    fn band(&self, engine: &Engine) -> Option<f64> {
        bands::of_works(&engine.models, &self.works()?.1, self.profile(engine)?)
    }
}

fn row(engine: &Engine, (from, to): (&Point, &Point), (family, check): (&str, String), limit: f64) -> Option<Row> {
    let modelled = [from.modelled(engine)?, to.modelled(engine)?];
    let got = from.time_ns * modelled[1] / modelled[0];
    let scaled = if from.device == to.device {
        to.batch as f64 / from.batch as f64
    } else {
        from.profile(engine)?.bandwidth().0 / to.profile(engine)?.bandwidth().0
    };
    let row = Row::new(family, check, (to.time_ns, got), limit, ("neusight", Constants::HeldOut));
    let sides = [from.band(engine)?, to.band(engine)?];
    // On one device what a model gets wrong it gets wrong at both sizes.
    let band = if from.device == to.device { sides[0].max(sides[1]) } else { sides[0].hypot(sides[1]) };
    Some(row.against(from.time_ns * scaled, from.time_ns).within(bands::reaching(from.time_ns, modelled, band)))
}

fn sum(engine: &Engine, works: &[(f64, Work)], device: &DeviceProfile) -> Option<f64> {
    works.iter().map(|(times, work)| Some(times * engine.models.estimate(work, device)?.duration.0 as f64)).sum()
}

/// The operators of one layer with how often each runs; training adds the two gradients of each product and one pass over
/// every activation.
fn layer([batch, length, hidden, heads]: [u64; 4], train: bool) -> Vec<(f64, Work)> {
    let (rows, wide, pairs, each) = (batch * length, 4 * hidden, batch * heads, hidden / heads);
    let mut works: Vec<(f64, Work)> = Vec::new();
    let mut add = |times: f64, name: &str, shapes: &[&[u64]]| {
        works.extend(operator_work(name, &operands(shapes), Reading::default()).map(|work| (times, work)));
    };
    for [m, k, n] in [[rows, hidden, 3 * hidden], [rows, hidden, hidden], [rows, hidden, wide], [rows, wide, hidden]] {
        add(1.0, "aten::mm", &[&[m, k], &[k, n]]);
        if train {
            add(1.0, "aten::mm", &[&[m, n], &[n, k]]);
            add(1.0, "aten::mm", &[&[k, m], &[m, n]]);
        }
    }
    for [m, k, n] in [[length, each, length], [length, length, each]] {
        add(1.0, "aten::bmm", &[&[pairs, m, k], &[pairs, k, n]]);
        if train {
            add(1.0, "aten::bmm", &[&[pairs, m, n], &[pairs, n, k]]);
            add(1.0, "aten::bmm", &[&[pairs, k, m], &[pairs, m, n]]);
        }
    }
    let passes = if train { 2.0 } else { 1.0 };
    add(passes, "aten::_softmax", &[&[pairs * length, length]]);
    add(2.0 * passes, "aten::mul", &[&[pairs * length, length], &[pairs * length, length]]);
    add(passes, "aten::gelu", &[&[rows, wide]]);
    add(2.0 * passes, "aten::native_layer_norm", &[&[rows, hidden], &[], &[hidden], &[hidden]]);
    add(2.0 * passes, "aten::add", &[&[rows, hidden], &[rows, hidden]]);
    works
}

fn operands(shapes: &[&[u64]]) -> Operands {
    let tensor = |dims: &&[u64]| Operand::tensor(dims.to_vec(), Some(DType::Fp32));
    Operands { inputs: shapes.iter().map(tensor).collect(), outputs: Vec::new() }
}
