//! The curves of collectives in the catalog of devices, fitted to published tables.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use color_eyre::eyre::Result;
use retime_core::cost::significant::significant;
use retime_core::device::Catalog;
use retime_fit::collectives::{CollectiveRow, collective_rows, fit_curve};
use retime_fit::validate::doubling_error;

use super::tables::read;

/// The interconnect of each system that collectives were measured on, within a node and between nodes.
const SYSTEMS: [(&str, bool, &str); 13] = [
    ("a100_sxm", false, "NVLink3"),
    ("h100_sxm", false, "NVLink4"),
    ("b200_sxm", false, "NVLink5"),
    ("gb200", false, "NVLink5-NVL72"),
    ("l40s", false, "PCIe4"),
    ("rtx_pro_6000_server", false, "PCIe5"),
    ("b300_sxm", false, "NVLink5-B300"),
    ("a100_dgx", false, "NVLink3"),
    ("a100_dgx", true, "InfiniBand-HDR"),
    ("a100_pairwise_nvlink", false, "NVLink3-bridge"),
    ("h100_pairwise_nvlink", false, "NVLink4-bridge"),
    ("NV_V100", false, "NVLink2"),
    ("MI300X", false, "InfinityFabric4"),
];

/// Tables of collectives; of two that measured the same, the first holds.
pub(crate) const COLLECTIVES: [(&str, &str); 4] = [
    ("aiconfigurator/nccl.csv.gz", "ai-dynamo/aiconfigurator 095f58a, nccl-tests"),
    ("vidur/network.csv.gz", "microsoft/vidur 7d47513, NCCL"),
    ("deepbench/allreduce.csv", "baidu-research/DeepBench da81ba7, NCCL 2.0"),
    ("amd_rccl/rccl_all_reduce.csv", "hisohara/ai-scripts 7b8b1ec, rccl-tests"),
];

/// Published fits that stay as they are.
const KEPT: [(&str, &str, u32); 2] = [("NVLink2", "all-reduce", 4), ("NVLink2", "all-reduce", 8)];

const MARK: &str = "# Collective times fitted by `lab fit`; do not edit.";

/// Writes the fitted collective curves to `file`.
pub(super) fn fit(folder: &Path, catalog: &Catalog, file: &Path) -> Result<()> {
    let mut tables = Vec::new();
    for (file, source) in COLLECTIVES {
        if let Some(text) = read(&folder.join(file))? {
            tables.push((source, collective_rows(&text)?));
        }
    }
    let mut groups: BTreeMap<(&str, &str, u32), (&str, Vec<&CollectiveRow>)> = BTreeMap::new();
    for (source, row) in tables.iter().flat_map(|(source, rows)| rows.iter().map(move |row| (*source, row))) {
        let joined =
            |(system, between, _): &&(&str, bool, &str)| *system == row.system && *between == row.between_nodes;
        let Some((_, _, link)) = SYSTEMS.iter().find(joined) else { continue };
        let group = groups.entry((link, row.collective, row.ranks)).or_insert_with(|| (source, Vec::new()));
        if group.0 == source && !KEPT.contains(&(link, row.collective, row.ranks)) {
            group.1.push(row);
        }
    }
    let all: Vec<_> = tables.iter().flat_map(|(_, rows)| rows.clone()).collect();
    let (doubled, sources) = (doubling_error(catalog, &all), tables.iter().map(|(source, _)| *source));
    let (error, n, sources) = (significant(doubled.mape, 3), doubled.n, sources.collect::<Vec<_>>().join("; "));
    println!("twice the ranks by other families: {:.1} % over {n}", 100.0 * error);
    let mut out = format!(
        "\n# Times among twice the ranks from those of other families of devices, each left out in turn.\n[doubling]\nerror = {error}\nn = {n}\nsource = \"{sources}\"\n"
    );
    for ((link, collective, ranks), (source, rows)) in groups {
        let Some(first) = rows.first() else { continue };
        let source = format!("{source} on {}", first.system);
        let Some((curve, summary)) = fit_curve(&rows, &source) else { continue };
        println!("{link:<14} {collective:<15} {ranks:>2} held out {:4.1} % over {}", 100.0 * summary.mape, summary.n);
        let list = |values: &[f64]| {
            values
                .iter()
                .map(|value| format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned())
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(
            out,
            "\n[[curve]]\nlink = \"{link}\"\ncollective = \"{collective}\"\nranks = {ranks}\nbytes = [{}]\nus = [{}]\nerror = {:.4}\nn = {}\nsource = \"{source}\"\n",
            list(&curve.bytes),
            list(&curve.us),
            curve.error,
            curve.n
        )?;
    }
    std::fs::write(file, format!("{MARK}\n{out}"))?;
    Ok(())
}
