//! Figures of papers that a user gets by a command: the command is run, a field of its JSON is the figure. Also the page docs/papers.md.

mod li;
mod lin;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use color_eyre::eyre::{Result, eyre};
use serde_json::Value;

use super::{Check, Class, Figure, Status, shown};

/// A figure and how to get it.
struct Live {
    name: String,
    source: &'static str,
    /// The paper's.
    expected: Figure,
    arguments: Vec<String>,
    /// The command that makes what it reads, into a folder that it names last; empty where nothing is made.
    before: Vec<String>,
    /// Where it stands in the JSON that the command writes.
    field: String,
    /// What a number there is multiplied by.
    unit: f64,
    verdict: Verdict,
}

/// How a figure is judged.
#[derive(Clone, Copy)]
enum Verdict {
    /// It must come out within this share, for the reason.
    Within(f64, &'static str),
    /// It differs because the paper's own inputs do.
    Contradicted(&'static str),
    /// It is an error of a model: ours must not be larger than the paper's of its own, for the reason.
    AtMost(&'static str),
    /// The paper's must lie in the error band that the answer states; why it may not.
    Banded(&'static str),
    /// It is shown beside the paper's, which does not state what it takes.
    Reported(&'static str),
}

fn arguments(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// All of them.
fn all() -> Vec<Live> {
    let mut rows = kakrannava();
    rows.extend(intensities());
    rows.extend(networks());
    rows.extend(li::rows());
    rows.extend(lin::rows());
    rows
}

const TRANSFORMS: Verdict = Verdict::Within(0.05, "the paper does not print how it counts transforms");
const ROUNDED: Verdict = Verdict::Within(0.005, "rounded inputs");
const NO_TIME: Verdict = Verdict::Reported("the paper prints deviations of whole networks only");
const NO_BYTES: Verdict = Verdict::Reported("the thesis does not state the bytes of an element, and prints whole µs");

fn kakrannava() -> Vec<Live> {
    let seconds = |name: &str, expected: Option<f64>, table: &str, steps: &[&str], verdict| Live {
        name: name.to_owned(),
        source: "Kakrannava 2024 Table IV",
        expected: expected.map_or(Figure::None, Figure::Number),
        arguments: std::iter::once("simulate".to_owned())
            .chain([format!("sample_traces/{table}.toml")])
            .chain(steps.iter().flat_map(|step| ["--step".to_owned(), (*step).to_owned()]))
            .collect(),
        field: "/simulated_ns".to_owned(),
        unit: 1e-9,
        before: Vec::new(),
        verdict,
    };
    let im2col = ["place-on BLIMP", "conv-algorithm im2col"];
    let winograd = ["place-on BLIMP", "conv-algorithm winograd"];
    let contradicts = "128 elements at 500 kFLOPS do the 462 MFLOP of K2 in 7.23 s; the same inputs give K1's estimate";
    let mut rows = vec![
        seconds("K1 on BLIMP by im2col, s", Some(28.994), "kakrannava-k1", &im2col, ROUNDED),
        seconds("K1 on BLIMP by Winograd, s", Some(13.389), "kakrannava-k1", &winograd, TRANSFORMS),
        seconds("K2 on BLIMP by im2col, s", Some(8.738), "kakrannava-k2", &im2col, Verdict::Contradicted(contradicts)),
        seconds("K2 on BLIMP by Winograd, s", Some(4.257), "kakrannava-k2", &winograd, TRANSFORMS),
    ];
    for (table, expected) in [("kakrannava-k1", 13.389), ("kakrannava-k2", 4.257)] {
        let best = ["place-on BLIMP", "conv-algorithm best"];
        let name = format!("the best algorithm for {table} on BLIMP is Winograd, s");
        rows.push(seconds(&name, Some(expected), table, &best, TRANSFORMS));
    }
    for device in ["Xeon-Gold-6230", "Xeon-E5-2680-v3"] {
        for table in ["alexnet", "vgg16", "kakrannava-k1", "kakrannava-k2"] {
            let step = format!("place-on {device}");
            let row = seconds(&format!("{table} on {device}, s"), None, table, &[&step], NO_TIME);
            rows.push(Live { source: "Kakrannava 2024 Fig. 3", ..row });
        }
    }
    rows.push(Live {
        name: "AlexNet conv1, multiply-accumulates".to_owned(),
        source: "Kakrannava 2024 §IV-B3",
        expected: Figure::Number(70_276_800.0),
        arguments: arguments(&["layers", "sample_traces/alexnet.toml"]),
        field: "/layers/0/flop".to_owned(),
        unit: 0.5,
        before: Vec::new(),
        verdict: Verdict::Within(0.0, "a count"),
    });
    rows
}

/// Table 2.4's formulas at one size each, worked by hand: name, size, processes, FLOP per byte of memory and of the network.
const INTENSITIES: [(&str, &str, &str, [f64; 2]); 6] = [
    ("dgemv", "1000", "10", [2_002_000.0 / 8_024_000.0, 200_200.0 / 7_200.0]),
    ("ddot", "1280", "128", [19.0 / 168.0, 19.0 / 56.0]),
    ("fft", "1048576", "128", [100.0 / 48.0, 100.0 / 224.0]),
    ("fft", "536870912", "128", [145.0 / 48.0, 145.0 / 224.0]),
    ("stencil", "1026", "128", [4.0 / 56.0, 32_768.0 / 32_832.0]),
    ("summa", "1210", "121", [10.914_83, 3.977_926]),
];

fn intensities() -> Vec<Live> {
    let of = |(algorithm, size, processes, expected): (&str, &str, &str, [f64; 2])| {
        let fields = ["intensity", "communication_intensity"];
        let paths = ["/systems/0/algorithms/0/intensity", "/systems/0/algorithms/0/communication_intensity"];
        let words =
            ["roofline", "--system", "Karst", "--algorithm", algorithm, "--size", size, "--processes", processes];
        [0, 1].map(|at| Live {
            name: format!("{algorithm} of {size} on {processes}: {}", fields[at].replace('_', " ")),
            source: "Cardwell 2019 Table 2.4",
            expected: Figure::Number(expected[at]),
            arguments: arguments(&words),
            field: paths[at].to_owned(),
            unit: 1.0,
            before: Vec::new(),
            verdict: Verdict::Within(1e-5, "the formula worked by hand to seven digits"),
        })
    };
    INTENSITIES.into_iter().flat_map(of).collect()
}

/// Tables 3.6 and 3.7, predicted, in µs: device, batch, fc1, ReLU, fc2, sigmoid.
const NETWORKS: [(&str, u32, [f64; 4]); 6] = [
    ("Carbonate", 32, [143.0, 0.0, 5.0, 3.0]),
    ("Carbonate", 64, [157.0, 1.0, 10.0, 6.0]),
    ("Carbonate", 128, [207.0, 2.0, 27.0, 12.0]),
    ("Bridges", 32, [102.0, 1.0, 3.0, 3.0]),
    ("Bridges", 64, [169.0, 1.0, 5.0, 7.0]),
    ("Bridges", 128, [326.0, 2.0, 10.0, 13.0]),
];

fn networks() -> Vec<Live> {
    const FIELDS: [&str; 4] =
        ["/segments/0/duration_ns", "/segments/1/duration_ns", "/segments/2/duration_ns", "/segments/3/duration_ns"];
    let of = |(device, batch, expected): (&'static str, u32, [f64; 4])| {
        let mut words = arguments(&["path", "sample_traces/cardwell-network.toml", "--step"]);
        words.push(format!("place-on {device}"));
        if batch != 128 {
            words.extend(["--step".to_owned(), format!("resize-batch {batch} from 128")]);
        }
        [0, 1, 2, 3].map(|at| Live {
            name: format!("{} of batch {batch} on {device}, µs", ["fc1", "ReLU", "fc2", "sigmoid"][at]),
            source: if device == "Carbonate" { "Cardwell 2019 Table 3.6" } else { "Cardwell 2019 Table 3.7" },
            expected: Figure::Number(expected[at]),
            arguments: words.clone(),
            field: FIELDS[at].to_owned(),
            unit: 1e-3,
            before: Vec::new(),
            verdict: if at % 2 == 0 { ROUNDED } else { NO_BYTES },
        })
    };
    NETWORKS.into_iter().flat_map(of).collect()
}

impl Live {
    fn command(&self) -> String {
        let quoted = |word: &String| if word.contains(' ') { format!("\"{word}\"") } else { word.clone() };
        let line = |words: &[String]| format!("retime {}", words.iter().map(quoted).collect::<Vec<String>>().join(" "));
        let first = if self.before.is_empty() { String::new() } else { line(&self.before) + " && " };
        first + &line(&self.arguments)
    }

    /// With the place in the JSON where a part `KEY=WORD` of it, which stands for the first of a list with that word, is a number.
    fn placed(mut self, answer: &Value) -> Self {
        let (mut at, mut field) = (Some(answer), String::new());
        for part in self.field.split('/').skip(1) {
            let of_list = |(key, word): (&str, &str)| {
                at.and_then(Value::as_array)?
                    .iter()
                    .position(|item| item.get(key).and_then(Value::as_str) == Some(word))
            };
            let part =
                part.split_once('=').and_then(of_list).map_or_else(|| part.to_owned(), |place| place.to_string());
            field = format!("{field}/{part}");
            at = answer.pointer(&field);
        }
        self.field = field;
        self
    }

    /// The figure in what the command answered.
    fn got(&self, answer: &Value) -> Result<Figure> {
        match answer.pointer(&self.field) {
            Some(Value::Number(number)) => Ok(Figure::Number(self.unit * number.as_f64().unwrap_or(f64::NAN))),
            Some(Value::String(word)) => Ok(Figure::Word(word.clone())),
            _ => Err(eyre!("{}: neither number nor word at {}", self.command(), self.field)),
        }
    }

    /// The paper's figure beside what the command answered.
    fn check(&self, answer: &Value) -> Result<Check> {
        let got = self.got(answer)?;
        let check = |tolerance| match (&self.expected, &got) {
            (Figure::Number(expected), Figure::Number(got)) => {
                Check::number(self.name.clone(), self.source, *expected, *got, tolerance)
            }
            (Figure::Word(expected), Figure::Word(got)) => Check::word(self.name.clone(), self.source, expected, got),
            (_, got) => Check {
                got: got.clone(),
                expected: Figure::None,
                error: None,
                ..Check::number(self.name.clone(), self.source, 1.0, 1.0, 0.0)
            },
        };
        let judged = match self.verdict {
            Verdict::Within(tolerance, why) => Check { note: Some(why.to_owned()), ..check(tolerance) },
            Verdict::AtMost(why) => {
                let check = Check { note: Some(why.to_owned()), ..check(0.0) };
                let status = if check.error.is_some_and(|error| error <= 0.0) { Status::Pass } else { Status::Fail };
                Check { status, ..check }
            }
            Verdict::Contradicted(why) => check(0.005).contradicted(why),
            Verdict::Reported(why) => check(0.0).reported(why),
            Verdict::Banded(why) => {
                let band = ["low_ns", "high_ns"]
                    .map(|end| answer.pointer(&format!("/error_band/{end}")).and_then(Value::as_f64));
                let [Some(low), Some(high)] = band else { return Err(eyre!("{}: no error band", self.command())) };
                // The band is of a time in ns.
                let is_within =
                    matches!(self.expected, Figure::Number(expected) if (low..=high).contains(&(expected / self.unit)));
                let status = if is_within { Status::Pass } else { Status::Fail };
                Check { status, note: Some(why.to_owned()), ..check(0.0) }
            }
        };
        Ok(Check { class: Class::Live, command: Some(self.command()), ..judged })
    }

    /// The verdict in words.
    fn judged(&self, check: &Check) -> String {
        let status = check.status.name();
        match (self.verdict, check.status) {
            (Verdict::Within(tolerance, why), _) if matches!(self.expected, Figure::Number(_)) => {
                format!("{status}, within {} %: {why}", 100.0 * tolerance)
            }
            (Verdict::Banded(_), Status::Pass) => format!("{status}: in the error band that the command states"),
            (Verdict::Banded(why), _) => format!("{status}, outside the error band that the command states: {why}"),
            (Verdict::AtMost(why), _) => format!("{status}, no larger than the paper's: {why}"),
            (Verdict::Within(_, why) | Verdict::Contradicted(why) | Verdict::Reported(why), _) => {
                format!("{status}: {why}")
            }
        }
    }
}

/// All figures with their checks; a command that gives several runs once.
fn checked(program: &Path) -> Result<Vec<(Live, Check)>> {
    let mut answers: BTreeMap<Vec<String>, Value> = BTreeMap::new();
    let mut rows = Vec::new();
    for live in all() {
        if !answers.contains_key(&live.arguments) {
            if let Some(folder) = live.before.last() {
                // What an earlier run made.
                let _ = std::fs::remove_dir_all(folder);
                Command::new(program).args(&live.before).output()?;
            }
            let done = Command::new(program).args(&live.arguments).arg("--json").output()?;
            let answer = serde_json::from_slice(&done.stdout)
                .map_err(|_| eyre!("{}: {}", live.command(), String::from_utf8_lossy(&done.stderr)))?;
            answers.insert(live.arguments.clone(), answer);
        }
        let answer = &answers[&live.arguments.clone()];
        let live = live.placed(answer);
        let check = live.check(answer)?;
        rows.push((live, check));
    }
    Ok(rows)
}

/// The checks, each by running its command.
///
/// # Errors
/// The program cannot be run, or a command does not answer.
pub(super) fn checks(program: &Path) -> Result<Vec<Check>> {
    Ok(checked(program)?.into_iter().map(|(_, check)| check).collect())
}

/// The page docs/papers.md.
///
/// # Errors
/// As [`checks`].
pub(super) fn page(program: &Path) -> Result<String> {
    let mut page = "# Studies of the papers, by command\n\nGenerated by `cargo run --release -p lab -- papers --page --program PROGRAM`; do not edit. \
        Commands run where this repository is; the figure is the named field of what they write with `--json`, numbers times the unit. \
        `lab papers` prints what the models give beyond these from inputs that only the papers have. Predictions are made without the figures beside them.\n\n"
        .to_owned();
    let rows = checked(program)?;
    page.push_str(&counts(&rows));
    page.push_str(
        "\n| figure | source | the paper's | ours | difference % | command | field | unit | judged |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (live, check) in &rows {
        let difference = match (&live.expected, check.error) {
            (Figure::Number(expected), Some(error)) if *expected > 0.0 => format!("{:+.2}", 100.0 * error),
            _ => "–".to_owned(),
        };
        let (expected, ours) = (shown(&live.expected), shown(&check.got));
        let (command, judged) = (live.command(), live.judged(check));
        let _ = writeln!(
            page,
            "| {} | {} | {expected} | {ours} | {difference} | `{command}` | `{}` | {} | {judged} |",
            live.name, live.source, live.field, live.unit
        );
    }
    page.push_str(NOT_LIVE);
    Ok(page)
}

/// How many figures of each table there are, how they came out, and how far they are off.
fn counts(rows: &[(Live, Check)]) -> String {
    let head = "| source | figures | pass | fail | paper-contradicts | reported | mean absolute difference % |";
    let mut text = format!("{head}\n|---|---|---|---|---|---|---|\n");
    let mut sources: Vec<&str> = rows.iter().map(|(live, _)| live.source).collect();
    sources.sort_unstable();
    sources.dedup();
    for name in sources {
        let own: Vec<&Check> = rows.iter().filter(|(live, _)| live.source == name).map(|(_, check)| check).collect();
        let off: Vec<f64> = own.iter().filter_map(|check| check.error).map(|error| 100.0 * error.abs()).collect();
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        let mean = if off.is_empty() { "–".to_owned() } else { format!("{mean:.1}") };
        let _ = writeln!(text, "| {name} | {} | {mean} |", by_status(&own));
    }
    let all: Vec<&Check> = rows.iter().map(|(_, check)| check).collect();
    let _ = writeln!(text, "| all | {} | |", by_status(&all));
    text
}

/// How many there are, and how many came out each way.
fn by_status(checks: &[&Check]) -> String {
    let of = |status| checks.iter().filter(|check| check.status == status).count();
    let counts = [Status::Pass, Status::Fail, Status::PaperContradicts, Status::Reported].map(of);
    format!("{} | {}", checks.len(), counts.map(|count| count.to_string()).join(" | "))
}

/// What no command gives, with the reason.
const NOT_LIVE: &str = "\n## What has no command\n\n\
- Kakrannava 2024 Figs. 2 and 3: deviations from measurements that are not printed; the sides that the model gives are above.\n\
- Kakrannava 2024 §VI-C, batch norm: bytes and FLOP of the layer are not stated.\n\
- Cardwell 2019 Table 2.6 and Figs. 2.3 to 2.13: the measured points are plotted, not printed. `roofline --system … --points` does the same with one's own, `--svg` draws the figures.\n\
- Cardwell 2019 Table 3.8: means that contain the ReLU and sigmoid rows, whose bytes are not stated.\n\
- Li 2019 Tables 2 to 4, Figs. 3 to 9: kernels and layers of one model on the authors' machine. `layers --analysis 1` to `15` makes each of them, of a trace or a prediction; cuDNN's choice of kernel for every layer, which the tables are about, is not predicted.\n\
- Li 2019 Table 5: quotients of the table's own columns.\n\
- Li 2019 Tables 6 and 8, the other models: their layers are not known from the paper (Inception, DenseNet, GoogLeNet, ResNet v2, detection, segmentation). Occupancy is that of launches, which a prediction has not. The stages of Table 8 count TensorFlow's layers.\n\
- Li 2019 Table 9 and Figs. 12 to 14: MXNet's kernels are not modelled; `layers A B …` puts traces of several frameworks and systems side by side, with the same columns.\n\
- Lin 2022 Table IV, embedding lookups, concat, memcpy, transpose, tril: errors on the authors' microbenchmarks, of which 35 rows are printed. `validate models microbenchmark_printed_rows.csv` (owensgroup/ml_perf_model) gives ours of the lookups beside the paper's. GEMM on a TITAN Xp: nothing of it was measured here.\n\
- Lin 2022 Table V and Fig. 9, DLRM_default and DLRM_MLPerf: no public trace of them; `lab papers --figures` sums the bars up.\n\
- Lin 2024 Table I: as Table IV of 2022. Table II and Figs. 10 and 11: tasks are drawn at random and not printed. Table IV: the same; above is one task for each platform, drawn by the paper's rule.\n";
