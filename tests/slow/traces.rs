//! Every trace there is, and that both readers agree on each.

use std::path::{Path, PathBuf};

use retime_core::graph::{self, BuildOptions};
use retime_core::trace::{self, OpenOptions};

use crate::drawn;
use crate::support::jobs::Opened;
use crate::support::readers::{agree, documents};
use crate::support::{samples, shared};

/// Paths with their names, to draw from.
pub fn named(paths: impl IntoIterator<Item = PathBuf>) -> Vec<(String, PathBuf)> {
    paths.into_iter().map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path)).collect()
}

fn inside(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Every bundled profiler trace, every capture of our own and every folder of shared traces.
pub fn all() -> Vec<(String, PathBuf)> {
    let files = [Some(samples()), shared("cpu-captured")].into_iter().flatten().flat_map(|folder| inside(&folder));
    let is_profile = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".kineto.json.gz") || name.ends_with(".predicted.json.gz")
    };
    let folders = shared("").into_iter().flat_map(|folder| inside(&folder));
    let is_folder = |path: &PathBuf| path.is_dir() && !path.ends_with("cpu-captured");
    named(files.filter(is_profile).chain(folders.filter(is_folder)))
}

/// Every job in a file or folder that can be modelled.
pub fn jobs(path: &Path) -> Vec<Opened> {
    let Ok(found) = trace::open(&[path.to_path_buf()], &OpenOptions::default()) else { return Vec::new() };
    let graphs = found.jobs.iter().filter_map(|job| graph::build(job, &BuildOptions::default()).ok());
    graphs.map(|graph| Opened::of(path, graph)).collect()
}

#[test]
fn every_shared_trace_is_read_alike() {
    let Some(folder) = shared("") else { return };
    let files = documents(&folder);
    let compared = drawn(named(files)).filter(|path| agree(path)).count();
    assert!(compared > 0, "no file that the reference reader accepts");
}
