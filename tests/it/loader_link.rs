//! Linking operators to execution-trace nodes, against counts others have made.

use std::collections::BTreeSet;

use retime_core::trace::link::{Link, LinkedBy, link};
use retime_core::trace::steps::steps;
use retime_core::trace::{self, ExecutionTrace, OpenOptions, Trace};

use crate::support::shared;

/// Links every rank of the job at `path` and checks what must hold of any link.
fn links(path: &str) -> Vec<Link> {
    let Some(path) = shared(path) else { return Vec::new() };
    let opened = trace::open(&[path], &OpenOptions::default()).unwrap();
    let ranks = opened.jobs.into_iter().flat_map(|job| job.ranks);
    ranks
        .map(|rank| {
            let (trace, execution_trace) = (rank.trace.unwrap(), rank.execution_trace.unwrap());
            let found = link(&trace, &execution_trace);
            assert_sound(&found, &trace, &execution_trace);
            found
        })
        .collect()
}

fn assert_sound(found: &Link, trace: &Trace, execution_trace: &ExecutionTrace) {
    let steps = steps(trace);
    let step = |event| steps.partition_point(|step| step.start <= trace.events.start(event));
    let mut nodes: Vec<_> = found.pairs.iter().map(|&(event, node)| (step(event), node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), found.pairs.len(), "a node is linked twice in a step");
    for (event, node) in &found.pairs {
        let name = execution_trace.names.get(execution_trace.nodes[node.0 as usize].name);
        assert_eq!(trace.names.get(trace.events.name(*event)), name);
        assert_eq!(found.node(*event), Some(*node));
    }
}

fn share(link: &Link) -> f64 {
    let nodes: BTreeSet<_> = link.pairs.iter().map(|(_, node)| *node).collect();
    nodes.len() as f64 / link.candidates as f64
}

#[test]
fn record_function_ids_link_all_nodes_of_our_own_captures() {
    let Some(manifest) = shared("cpu-captured/manifest.json") else { return };
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    for capture in manifest["captures"].as_array().unwrap() {
        for found in links(&format!("cpu-captured/{}", capture["files"]["kineto"].as_str().unwrap())) {
            assert_eq!(found.by, LinkedBy::RecordFunction);
            assert_eq!(Some(found.pairs.len() as u64), capture["check"]["et_linked"].as_u64(), "{}", capture["id"]);
        }
    }
}

#[test]
fn external_ids_link_where_both_ran_together_in_2023() {
    for found in links("tiny-simple-add-et") {
        assert_eq!((found.by, share(&found) > 0.8), (LinkedBy::ExternalId, true), "{}", share(&found));
    }
}

#[test]
fn names_link_traces_of_different_steps() {
    for found in links("dlrm-v100x8") {
        assert_eq!((found.by, share(&found) > 0.97), (LinkedBy::Names, true), "{}", share(&found));
    }
    for found in links("resnet-2080ti-et") {
        assert_eq!((found.by, share(&found) > 0.97), (LinkedBy::Names, true), "{}", share(&found));
        assert!(found.pairs.len() > 20 * found.candidates, "most of the 30 steps are alike: {}", found.pairs.len());
    }
}
