use super::*;

#[test]
fn idle_time_within_a_period_is_what_no_piece_covers() {
    let interval = |start, end, key| super::super::density::Interval { start: TimeNs(start), end: TimeNs(end), key };
    let density = Density::build([interval(0, 10, 3), interval(10, 20, 4), interval(35, 60, 5), interval(70, 80, 6)]);
    let found = idle(&density, &(TimeNs(5)..TimeNs(100)));
    let expected = [
        (TimeNs(20)..TimeNs(35), Some(NodeId::new(5))),
        (TimeNs(60)..TimeNs(70), Some(NodeId::new(6))),
        (TimeNs(80)..TimeNs(100), None),
    ];
    assert_eq!(found, expected);
    assert_eq!(idle(&Density::default(), &(TimeNs(0)..TimeNs(7))), [(TimeNs(0)..TimeNs(7), None)]);
}

/// A trace on which the host waits, streams contend and the queue is full exercises every candidate; what matters here is
/// that each is a step.
#[test]
fn every_candidate_is_a_step_that_can_be_pasted() {
    let mut graph = crate::graph::ExecutionGraph {
        is_predicted: false,
        tasks: petgraph::graph::DiGraph::default(),
        lanes: Vec::new(),
        operators: Vec::new(),
        operands: Vec::new(),
        collectives: Vec::new(),
        names: crate::intern::NameTable::default(),
        ranks: Vec::new(),
        measured: DurNs(0),
        late_starts: Vec::new(),
        constants: Vec::new(),
        batch_size: None,
        batches: 1,
        passes: Vec::new(),
        diagnostics: crate::diagnostic::Diagnostics::default(),
        stated: Vec::new(),
        stands_beside: Vec::new(),
        repeats: Vec::new(),
    };
    let name = graph.names.intern("void at::native::reduce_kernel<512, 1, (anonymous)>(int, float & x)");
    let collective = graph.names.intern("ncclDevKernel_AllToAll(x)");
    let lane = LaneId(0);
    let causes = [
        Cause::LaunchBound { part: "T1", name },
        Cause::LaunchBound { part: "T2", name },
        Cause::LaunchBound { part: "T4", name },
        Cause::LaunchBound { part: "compute", name },
        Cause::Sync { call: name },
        Cause::EventWait { name, lane },
        Cause::LaunchQueue { name, lane },
        Cause::Contention { name, lane },
        Cause::Collective { name: collective, late: Some(Rank(3)) },
        Cause::DataLoading { name },
        Cause::Latency(crate::graph::DependencyKind::Launch),
        Cause::Latency(crate::graph::DependencyKind::Stream),
        Cause::NothingRecorded { within: None },
    ];
    for cause in causes {
        let gap = Gap {
            rank: Rank(0),
            lane,
            start: TimeNs(0),
            duration: DurNs(1),
            next: None,
            cause,
            chain: Vec::new(),
            closed_by: Vec::new(),
        };
        let lines = candidate_steps(&graph, &gap);
        assert!(!lines.is_empty(), "{cause:?}");
        for line in lines {
            assert!(crate::scenario::parse_step(&line).is_ok(), "{cause:?}: {line}");
        }
    }
}
