//! The replay of other people's traces: error against the measured period, and the response to scaling.

use std::path::{Path, PathBuf};

use retime::analysis::replay::ReplayReport;
use retime::graph::{self, BuildOptions, ExecutionGraph};
use retime::trace::{self, OpenOptions};

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces").join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

fn graphs(path: &Path, options: &BuildOptions) -> Vec<ExecutionGraph> {
    let opened = trace::open(&[path.to_owned()], &OpenOptions::default()).unwrap();
    opened.jobs.iter().filter_map(|job| graph::build(job, options).ok()).collect()
}

fn print(name: &str, graph: &ExecutionGraph) -> ReplayReport {
    let report = ReplayReport::of(graph);
    let r = &report.responses;
    let p = &report.path;
    println!(
        "{name:44} {:>9.3} {:>9.3} ms {:>+7.3} % unexpl {:>6.2} %  x2 {:.3} x.5 {:.3} think {:.3}  | host {:.2} dev {:.2} coll {:.2} edge {:.3} anchor {:.3}+{:.3} cont {:.3} [{}] {} tasks",
        report.measured.0 as f64 / 1e6,
        report.simulated.0 as f64 / 1e6,
        report.error() * 100.0,
        report.unexplained_share() * 100.0,
        r.kernels_doubled,
        r.kernels_halved,
        r.think_halved,
        p.host,
        p.device,
        p.collectives,
        p.edges,
        p.anchors,
        p.rank_starts,
        p.contention,
        report.iteration,
        graph.tasks.node_count(),
    );
    report
}

#[test]
fn overview_of_all_traces() {
    let Some(root) = shared("") else { return };
    let only = std::env::var("RETIME_ONLY").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders.iter().filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if !only.is_empty() && !only.split(',').any(|part| name.contains(part)) {
            continue;
        }
        match trace::open(&[folder.clone()], &OpenOptions::default()) {
            Err(error) => println!("{name:44} {error}"),
            Ok(opened) => {
                for job in &opened.jobs {
                    let count = if std::env::var("RETIME_STEPS").is_ok() { 9 } else { 0 };
                    let all = (0..count).map(graph::IterationChoice::Index);
                    for iteration in std::iter::once(graph::IterationChoice::Default).chain(all) {
                        match graph::build(job, &BuildOptions { iteration }) {
                            Ok(graph) => drop(print(&format!("{name} ({} ranks)", graph.ranks.len()), &graph)),
                            Err(error) => println!("{name:44} {error}"),
                        }
                    }
                }
            }
        }
    }
}
