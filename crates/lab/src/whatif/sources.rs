//! What among the files and folders named can be checked.

use std::path::{Path, PathBuf};

use retime::session::folders_of_traces;

/// Files by what they are, recognised by their names.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Manifests of captures.
    pub(crate) manifests: Vec<PathBuf>,
    /// A training without and with workers that load its data.
    pub(crate) loader: Option<(PathBuf, PathBuf)>,
    /// One model on an H100 and on an MI300X.
    pub(crate) pairs: Vec<(PathBuf, PathBuf)>,
    /// Training times of convolutional networks by GPU and batch.
    pub(crate) networks: Option<PathBuf>,
    /// Training steps per second by GPU and batch.
    pub(crate) throughputs: Option<PathBuf>,
    /// Iteration times of transformers by device and batch.
    pub(crate) transformers: Option<PathBuf>,
    /// Times of their operators by device.
    pub(crate) operators: Option<PathBuf>,
}

impl Sources {
    /// Looks at each path, and in folders at what is in them.
    pub(crate) fn find(paths: &[PathBuf]) -> Self {
        let mut sources = Self::default();
        for path in folders_of_traces(paths) {
            if path.is_dir() {
                sources.folder(&path);
            } else if path.extension().is_some_and(|ending| ending == "json") {
                sources.manifests.push(path);
            }
        }
        sources
    }

    fn folder(&mut self, folder: &Path) {
        let file = |name: &str| Some(folder.join(name)).filter(|path| path.exists());
        let pair = |a: &str, b: &str| Some((file(a)?, file(b)?));
        self.manifests.extend(file("manifest.json"));
        self.pairs.extend(pair("h100.json.gz", "mi300.json.gz"));
        self.loader = self.loader.take().or_else(|| pair("workers0.pt.trace.json.gz", "workers4.pt.trace.json.gz"));
        self.networks = self.networks.take().or_else(|| file("e2e_cnn_single_gpu.csv"));
        self.throughputs = self.throughputs.take().or_else(|| file("throughputs.csv"));
        self.transformers = self.transformers.take().or_else(|| file("e2e_labels.csv"));
        self.operators = self.operators.take().or_else(|| file("e2e_per_op_labels.csv.gz"));
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self { manifests, loader, pairs, networks, throughputs, transformers, operators } = self;
        manifests.is_empty()
            && pairs.is_empty()
            && loader.is_none()
            && [networks, throughputs, transformers, operators].iter().all(|file| file.is_none())
    }
}
