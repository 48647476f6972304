//! The published tables that the catalog is fitted to, by domain and device, and which devices share a chip.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use color_eyre::eyre::Result;
use retime::session::read_table;
use retime_core::cost::Domain;
use retime_core::device::Catalog;
use retime_fit::{Measurement, Sample};

/// File and source.
pub(crate) const FILES: [(&str, &str); 24] = [
    ("neusight/train_linear.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_linear.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_bmm.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_bmm.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_conv.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_ln.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_ln.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_softmax.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_softmax.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_elementwise.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_elem.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("aiconfigurator/gemm_bf16.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("aiconfigurator/gemm_fp8.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("deepbench/gemm.csv", DEEPBENCH),
    ("deepbench/conv.csv", DEEPBENCH),
    ("xla/gemm.csv.gz", XLA),
    ("vidur/compute_mlp.csv.gz", "microsoft/vidur 7d47513"),
    ("aiconfigurator/context_attention.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("aiconfigurator/generation_attention.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("aiconfigurator/encoder_attention.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("llmservingsim/attention_v0.csv.gz", LLM_SERVING_SIM),
    ("llmservingsim/attention_v1.csv.gz", LLM_SERVING_SIM),
    ("sample_traces/h100/microbench-1.csv.gz", OWN),
    ("sample_traces/h100/microbench-2.csv.gz", OWN),
];

/// Where a table of `FILES` lies: those of the project beside its traces, others in `folder`.
pub(crate) fn path(folder: &Path, file: &str) -> PathBuf {
    let is_own = file.starts_with("sample_traces/");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if is_own { own.join(file) } else { folder.join(file) }
}

const OWN: &str = "retime, PyTorch 2.11 on one H100";

const DEEPBENCH: &str = "baidu-research/DeepBench da81ba7";
const XLA: &str = "ROCm/xla ea2c45f";
const LLM_SERVING_SIM: &str = "casys-kaist/LLMServingSim 5daddb2";

/// Whether a row of `source` is left out: vidur's A100, which aiconfigurator covers more finely, and, to judge the fits to aiconfigurator's by,
/// XLA's products in 16 and 8 bits on GPUs of NVIDIA and LLMServingSim's H100. Of our own, norms and streaming: fits
/// to their many kinds of operator, of few rows each, miss kernels of traces by more than what other devices teach does; and convolutions, of
/// so few sizes that most of a model lie beyond them, where a prediction and the same one opened again would go by two models.
fn is_left_out(source: &str, domain: Domain, row: &Measurement) -> bool {
    let of_xla = source == XLA && matches!(domain, Domain::Gemm16 | Domain::Gemm8) && row.device.starts_with("sm_");
    let judges = of_xla || source == LLM_SERVING_SIM && row.device == "H100";
    let is_mixed = source == OWN && matches!(domain, Domain::Norm | Domain::Streaming | Domain::Conv);
    judges || is_mixed || source != DEEPBENCH && row.device == "a100"
}

/// The text of a table, plain or gzip; none, with a line on standard error, where it is not there.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    if path.exists() {
        return Ok(Some(read_table(path)?));
    }
    eprintln!("skipped: {} is not there", path.display());
    Ok(None)
}

/// Devices of the same chip: the fit of the first holds for the others.
pub(super) const SIBLINGS: [&[&str]; 7] = [
    &["V100-PCIe", "V100", "V100-32", "GV100"],
    &["P100", "P100-SXM2"],
    &["A100-40-PCIe", "A100-40", "A100-80", "A100-80-PCIe"],
    &["A100-80", "A100-40", "A100-80-PCIe", "A100-40-PCIe"],
    &["A100-80-PCIe", "A100-80", "A100-40", "A100-40-PCIe"],
    &["H100-SXM", "H200"],
    &["B200", "GB200", "B300", "GB300"],
];

/// The rows of a domain on a device and where they are from.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Measurement>,
    sources: BTreeSet<&'static str>,
}

impl Table {
    pub(super) fn source(&self) -> String {
        self.sources.iter().copied().collect::<Vec<_>>().join("; ")
    }
}

pub(crate) type Tables = BTreeMap<(Domain, String), Table>;

/// The rows of the tables that may teach the domains `wanted` (all without any): a table that contradicts itself teaches nothing.
pub(crate) fn load(
    folder: &Path,
    files: &[(&str, &'static str)],
    catalog: &Catalog,
    wanted: &[&str],
) -> Result<Tables> {
    let wants = |domain: Domain| {
        let is_named = |domain: Domain| wanted.contains(&domain.name());
        wanted.is_empty() || is_named(domain) || domain == Domain::Linear && is_named(Domain::BatchedGemm)
    };
    let mut all = Tables::new();
    for &(file, source) in files {
        let Some(text) = read(&path(folder, file))? else { continue };
        for row in retime_fit::measurements(&text)? {
            let Some(domain) = Domain::of(&row.work) else { continue };
            // P4: training and test rows of `linear` ran different kernels.
            if !wants(domain)
                || (domain == Domain::Linear && row.device == "Tesla P4")
                || is_left_out(source, domain, &row)
                || row.is_unreliable
            {
                continue;
            }
            let Ok(device) = catalog.find(&row.device) else { continue };
            let table = all.entry((domain, device.id.clone())).or_default();
            table.sources.insert(source);
            table.rows.extend(row.of_one_kernel(device));
        }
    }
    for table in all.values_mut() {
        let step = table.rows.len().div_ceil(40_000);
        table.rows = table.rows.iter().step_by(step).cloned().collect();
    }
    Ok(all)
}

pub(super) fn samples<'a>(domain: Domain, tables: &'a Tables, catalog: &'a Catalog) -> Result<Vec<Sample<'a>>> {
    let of = |((_, id), table): (&'a (Domain, String), &'a Table)| {
        Ok(Sample { domain, device: catalog.find(id)?, rows: &table.rows })
    };
    tables.iter().filter(|((other, _), _)| *other == domain).map(of).collect()
}

pub(super) fn is_same_chip(a: &str, b: &str) -> bool {
    a == b || SIBLINGS.iter().any(|family| family.contains(&a) && family.contains(&b))
}
