//! The bundled samples, part of the program: what opens when no trace is named, and others to open from the screen.
//!
//! Those under `public` are exports of traces that others measured; `sample_traces/public/SOURCES.md` has sources and licences. The others are
//! our own captures, and tables of the layers of published networks.

use std::path::Path;

use retime_core::graph::BuildOptions;
use retime_core::trace::{OpenError, open_bytes};

use super::{Engine, EngineError, Loaded};

/// A bundled job.
#[derive(Debug)]
pub struct Sample {
    /// What it is opened by.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Name and content of its files: a trace for each rank, with its execution trace where that was recorded; or a table of layers.
    files: &'static [(&'static str, &'static [u8])],
}

macro_rules! bundled {
    ($($file:literal),*) => {
        &[$(($file, include_bytes!(concat!("../../sample_traces/", $file)))),*]
    };
}

macro_rules! layers {
    ($name:literal, $file:literal, $what:literal) => {
        Sample {
            name: $name,
            about: concat!("the layers of ", $what, ", predicted for a V100: `place-on` puts them elsewhere"),
            files: bundled![$file],
        }
    };
}

/// All of them. The first opens by itself.
pub static ALL: &[Sample] = &[
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
    Sample {
        name: "dlrm-cpu-x2",
        about: "a training step of DLRM, measured on two ranks of a host, with their execution traces",
        files: bundled![
            "dlrm-ddp-b128-fp32-cpu-ws2-r0.kineto.json.gz",
            "dlrm-ddp-b128-fp32-cpu-ws2-r0.et.json.gz",
            "dlrm-ddp-b128-fp32-cpu-ws2-r1.kineto.json.gz",
            "dlrm-ddp-b128-fp32-cpu-ws2-r1.et.json.gz"
        ],
    },
    layers!("alexnet", "alexnet.toml", "AlexNet"),
    layers!("vgg16", "vgg16.toml", "VGG-16"),
    layers!("resnet50-v1.5", "li2019/resnet50-v1.5.csv", "ResNet-50 v1.5"),
    layers!("resnet101-v1", "li2019/resnet101-v1.csv", "ResNet-101 v1"),
    layers!("resnet152-v1", "li2019/resnet152-v1.csv", "ResNet-152 v1"),
    layers!("mobilenet-v1-0.25-128", "li2019/mobilenet-v1-0.25-128.csv", "MobileNet v1, width 0.25, 128 pixels"),
    layers!("mobilenet-v1-0.25-160", "li2019/mobilenet-v1-0.25-160.csv", "MobileNet v1, width 0.25, 160 pixels"),
    layers!("mobilenet-v1-0.25-192", "li2019/mobilenet-v1-0.25-192.csv", "MobileNet v1, width 0.25, 192 pixels"),
    layers!("mobilenet-v1-0.25-224", "li2019/mobilenet-v1-0.25-224.csv", "MobileNet v1, width 0.25, 224 pixels"),
    layers!("mobilenet-v1-0.5-128", "li2019/mobilenet-v1-0.5-128.csv", "MobileNet v1, width 0.5, 128 pixels"),
    layers!("mobilenet-v1-0.5-160", "li2019/mobilenet-v1-0.5-160.csv", "MobileNet v1, width 0.5, 160 pixels"),
    layers!("mobilenet-v1-0.5-192", "li2019/mobilenet-v1-0.5-192.csv", "MobileNet v1, width 0.5, 192 pixels"),
    layers!("mobilenet-v1-0.5-224", "li2019/mobilenet-v1-0.5-224.csv", "MobileNet v1, width 0.5, 224 pixels"),
    layers!("mobilenet-v1-0.75-128", "li2019/mobilenet-v1-0.75-128.csv", "MobileNet v1, width 0.75, 128 pixels"),
    layers!("mobilenet-v1-0.75-160", "li2019/mobilenet-v1-0.75-160.csv", "MobileNet v1, width 0.75, 160 pixels"),
    layers!("mobilenet-v1-0.75-192", "li2019/mobilenet-v1-0.75-192.csv", "MobileNet v1, width 0.75, 192 pixels"),
    layers!("mobilenet-v1-0.75-224", "li2019/mobilenet-v1-0.75-224.csv", "MobileNet v1, width 0.75, 224 pixels"),
    layers!("mobilenet-v1-1.0-128", "li2019/mobilenet-v1-1.0-128.csv", "MobileNet v1, width 1.0, 128 pixels"),
    layers!("mobilenet-v1-1.0-160", "li2019/mobilenet-v1-1.0-160.csv", "MobileNet v1, width 1.0, 160 pixels"),
    layers!("mobilenet-v1-1.0-192", "li2019/mobilenet-v1-1.0-192.csv", "MobileNet v1, width 1.0, 192 pixels"),
    layers!("mobilenet-v1-1.0-224", "li2019/mobilenet-v1-1.0-224.csv", "MobileNet v1, width 1.0, 224 pixels"),
    layers!("cardwell-network", "cardwell-network.toml", "the network of Cardwell 2019"),
    layers!("kakrannava-k1", "kakrannava-k1.toml", "the first convolution of Kakrannava 2024"),
    layers!("kakrannava-k2", "kakrannava-k2.toml", "the second convolution of Kakrannava 2024"),
];

/// The sample of that name.
pub fn find(name: &str) -> Option<&'static Sample> {
    ALL.iter().find(|sample| sample.name == name)
}

/// Whether a trace with this path is of a bundled sample.
pub fn is_bundled(path: &Path) -> bool {
    ALL.iter().any(|sample| sample.has(path))
}

/// Opens the sample that opens by itself.
///
/// # Errors
/// The sample is damaged.
pub fn load(engine: &Engine, options: &BuildOptions) -> Result<Loaded, EngineError> {
    ALL[0].load(engine, options)
}

impl Sample {
    /// Whether a trace with this path is of it.
    pub fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|(name, _)| Path::new(name) == path)
    }

    /// Opens it.
    ///
    /// # Errors
    /// The sample is damaged.
    pub fn load(&self, engine: &Engine, options: &BuildOptions) -> Result<Loaded, EngineError> {
        let job = open_bytes(self.files)?.jobs.into_iter().next().ok_or(OpenError::NothingNamed)?;
        engine.prepare(job, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_opens_as_what_it_is_said_to_be() {
        let engine = Engine::builtin().unwrap();
        for sample in ALL {
            let loaded = sample.load(&engine, &BuildOptions::default()).unwrap();
            assert_eq!(loaded.predicted().is_none(), sample.about.contains("measured"), "{}", sample.name);
            let ranks = sample.files.iter().filter(|(name, _)| !name.ends_with(".et.json.gz")).count();
            assert_eq!(loaded.graph.rank_count() as usize, ranks, "{}", sample.name);
            if loaded.predicted().is_none() {
                let joined = loaded.job.ranks.iter().filter(|rank| rank.execution_trace.is_some()).count();
                assert_eq!(joined, sample.files.len() - ranks, "{}", sample.name);
            }
            let error = loaded.replay.summary.replay_error.unwrap();
            assert!(error.abs() < 0.01, "{} replays with {error}", sample.name);
        }
        let first = load(&engine, &BuildOptions::default()).unwrap().replay.summary.clone();
        assert!(first.gpu_busy > 0.9 && first.batch == Some((512, 512)), "{first:?}");
    }
}
