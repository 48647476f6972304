//! The bundled samples, part of the program: what opens when no trace is named, and others to open from the screen.
//!
//! All but the last are exports of traces that others measured; `sample_traces/public/SOURCES.md` has sources and licences.

use retime_core::graph::BuildOptions;
use retime_core::trace::{Job, RankTrace, load_bytes};

use super::{Engine, EngineError, Loaded};

/// A bundled job.
#[derive(Debug)]
pub struct Sample {
    /// What it is opened by.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Name and content of its files, one for each rank.
    files: &'static [(&'static str, &'static [u8])],
}

macro_rules! bundled {
    ($($file:literal),*) => {
        &[$(($file, include_bytes!(concat!("../../sample_traces/", $file)))),*]
    };
}

/// All of them. The first opens by itself.
pub static ALL: [Sample; 5] = [
    Sample {
        name: "vgg13-train-h100",
        about: "a training step of VGG-13, batch 512, measured on an H100: GPU-bound",
        files: bundled!["public/vgg13-train-h100.json.gz"],
    },
    Sample {
        name: "dlrm-v100x8",
        about: "a training step of DLRM, measured on eight V100 ranks: collectives, launch-bound",
        files: bundled![
            "public/dlrm-v100x8/rank0.json.gz",
            "public/dlrm-v100x8/rank1.json.gz",
            "public/dlrm-v100x8/rank2.json.gz",
            "public/dlrm-v100x8/rank3.json.gz",
            "public/dlrm-v100x8/rank4.json.gz",
            "public/dlrm-v100x8/rank5.json.gz",
            "public/dlrm-v100x8/rank6.json.gz",
            "public/dlrm-v100x8/rank7.json.gz"
        ],
    },
    Sample {
        name: "bert-small-h100",
        about: "an inference step of BERT-small, measured on an H100: launch-bound",
        files: bundled!["public/bert-small-h100.json.gz"],
    },
    Sample {
        name: "bert-small-mi300",
        about: "the same step measured on an MI300X, to compare with",
        files: bundled!["public/bert-small-mi300.json.gz"],
    },
    Sample {
        name: "dlrm-on-v100",
        about: "DLRM with eight tables, captured on a host and predicted for a V100",
        files: bundled!["dlrm-ddp-b256-on-v100.predicted.json.gz"],
    },
];

/// The sample of that name.
pub fn find(name: &str) -> Option<&'static Sample> {
    ALL.iter().find(|sample| sample.name == name)
}

/// Opens the sample that opens by itself.
///
/// # Errors
/// The sample is damaged.
pub fn load(engine: &Engine, options: &BuildOptions) -> Result<Loaded, EngineError> {
    ALL[0].load(engine, options)
}

impl Sample {
    /// Opens it.
    ///
    /// # Errors
    /// The sample is damaged.
    pub fn load(&self, engine: &Engine, options: &BuildOptions) -> Result<Loaded, EngineError> {
        let mut ranks = Vec::with_capacity(self.files.len());
        for (name, bytes) in self.files {
            let trace = load_bytes(bytes, name)?;
            let place = trace.rank;
            let (rank, world_size) = (place.map_or(0, |place| place.rank), place.and_then(|place| place.world_size));
            ranks.push(RankTrace { rank, world_size, trace: Some(trace), execution_trace: None });
        }
        engine.prepare(Job { ranks }, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_opens_as_what_it_is_said_to_be() {
        let engine = Engine::builtin().unwrap();
        for sample in &ALL {
            let loaded = sample.load(&engine, &BuildOptions::default()).unwrap();
            assert_eq!(loaded.predicted().is_none(), sample.about.contains("measured"), "{}", sample.name);
            assert_eq!(loaded.graph.rank_count() as usize, sample.files.len(), "{}", sample.name);
            let error = loaded.replay.summary.replay_error;
            assert!(error.abs() < 0.01, "{} replays with {error}", sample.name);
        }
        let first = load(&engine, &BuildOptions::default()).unwrap().replay.summary.clone();
        assert!(first.gpu_busy > 0.9 && first.batch == Some((512, 512)), "{first:?}");
    }
}
