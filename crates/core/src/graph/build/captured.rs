//! Operators of kernels that a replayed graph runs, from a recording of the run that captured the graph.
//!
//! A replay records kernels and no operator. The capture records the operators and, on HIP, the kernel that each launch would
//! have run; what stands between the begin and the end of a capture is a piece, and a replay is the piece whose kernels are
//! the same in the same order. Times are those of the replay throughout: nothing here changes how a graph replays.

use std::path::PathBuf;

use rustc_hash::FxHashMap;

use crate::align::common_subsequence;
use crate::graph::{ExecutionGraph, NodeId, Operands, OperandsId, Operator, OperatorId, Phase, TaskKind};
use crate::intern::{NameId, NameTable};
use crate::trace::{EventId, Trace};
use crate::units::DurNs;

use super::calls::{CallClass, launches_graph};
use super::operands;
use super::operators::{Modules, close_subtrees, phase_of_name};
use super::threads::Threads;

/// Captured graphs of a model.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    names: NameTable,
    pieces: Vec<Piece>,
    /// Captures of which launches do not say which kernel they would have run.
    unnamed: usize,
    /// The files of the recordings.
    pub files: Vec<PathBuf>,
}

/// What was launched between the begin and the end of one capture.
#[derive(Clone, Debug, Default, PartialEq)]
struct Piece {
    /// Kernels in order, each with the place of the operator that launched it.
    kernels: Vec<(NameId, Option<u32>)>,
    /// Those operators and what they were called from, callers first.
    operators: Vec<Captured>,
}

#[derive(Clone, Debug, PartialEq)]
struct Captured {
    name: NameId,
    module: NameId,
    /// Place of the operator that it was called from.
    caller: Option<u32>,
    operands: Option<Operands>,
    phase: Phase,
}

/// The code of the diagnostic that says how many kernels have operators of a capture.
pub const CAPTURED: &str = "captured-operators";

/// How much of two sequences of kernels is the same, at least, for one to be a replay of the other: another batch or length has
/// other kernels in a share of its places.
const ALIKE: f64 = 0.98;

/// One launch of a graph: the call, and the kernels it ran, by start.
struct Replay {
    call: NodeId,
    kernels: Vec<NodeId>,
}

/// A replay with the piece that it is of, and the places of its kernels with those of the operators that launched them.
struct Joined<'r> {
    replay: &'r Replay,
    piece: usize,
    pairs: Vec<(usize, u32)>,
}

/// Which piece a sequence of kernels is.
#[derive(Clone, Debug)]
enum Found {
    /// This one; places in the replay with places among the piece's operators.
    Piece(usize, Vec<(usize, u32)>),
    /// Several that differ in what their operators worked on.
    Several,
    None,
}

impl Captures {
    /// Reads the captures of `traces`.
    pub fn read<'a>(traces: impl IntoIterator<Item = &'a Trace>) -> Self {
        let mut captures = Self::default();
        for trace in traces {
            captures.add(trace);
        }
        captures
    }

    /// Why nothing can be taken from them; `None` where something can.
    pub fn lack(&self) -> Option<&'static str> {
        match (self.pieces.is_empty(), self.unnamed) {
            (false, _) => None,
            (true, 0) => {
                Some("no graph was captured in it: neither BeginCapture nor EndCapture was called between launches")
            }
            (true, _) => {
                Some("its launches do not name their kernels, as only HIP's do: they cannot be told from one another")
            }
        }
    }

    fn add(&mut self, trace: &Trace) {
        let threads = Threads::read(trace);
        let mut open: FxHashMap<u32, Vec<(NameId, Option<u32>)>> = FxHashMap::default();
        for &(event, call) in &threads.folded {
            let call = &threads.calls[call as usize];
            let name = trace.names.get(trace.events.name(event));
            if name.contains("StreamBeginCapture") {
                open.insert(call.thread, Vec::new());
            } else if name.contains("StreamEndCapture") {
                let launches = open.remove(&call.thread).unwrap_or_default();
                self.add_piece(trace, &threads, call.thread as usize, &launches);
            } else if CallClass::of(name) == CallClass::Launch
                && let Some(launches) = open.get_mut(&call.thread)
            {
                let kernel = trace.launched.get(event).map_or(NameId(0), |&kernel| kernel);
                launches.push((kernel, call.operator));
            }
        }
    }

    fn add_piece(&mut self, trace: &Trace, threads: &Threads, thread: usize, launches: &[(NameId, Option<u32>)]) {
        if launches.iter().all(|&(kernel, _)| kernel == NameId(0)) {
            self.unnamed += usize::from(!launches.is_empty());
            return;
        }
        let thread = &threads.list[thread];
        let caller = |&at: &u32| thread.operators[at as usize].parent;
        let launching = launches.iter().filter_map(|&(_, operator)| operator);
        let mut wanted: Vec<u32> = launching.flat_map(|at| std::iter::successors(Some(at), caller)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let place = |at: u32| wanted.binary_search(&at).ok().map(|place| place as u32);
        let mut modules = Modules::new(trace, thread);
        let mut operators: Vec<Captured> = Vec::with_capacity(wanted.len());
        for &at in &wanted {
            let span = &thread.operators[at as usize];
            let caller = span.parent.and_then(place);
            let module = match caller {
                Some(caller) => operators[caller as usize].module,
                None => modules.at(trace, &mut self.names, span),
            };
            let name = trace.names.get(trace.events.name(span.event));
            operators.push(Captured {
                name: self.names.intern(name),
                module,
                caller,
                operands: operands_of(trace, span.event),
                phase: phase_of_name(name).unwrap_or(Phase::Forward),
            });
        }
        let kernel = |&(kernel, operator): &(NameId, Option<u32>)| {
            (self.names.intern(trace.names.get(kernel)), operator.and_then(place))
        };
        let kernels = launches.iter().map(kernel).collect();
        self.pieces.push(Piece { kernels, operators });
    }

    /// Gives the kernels of replayed graphs in `graph` the operators that launched them when the graphs were captured.
    ///
    /// # Complexity
    /// O(distinct replays × pieces × kernels² / 64), less where they are alike.
    pub fn join(&self, graph: &mut ExecutionGraph) {
        let replays = replays(graph);
        let known: Vec<Option<NameId>> = self.names.iter().map(|(_, name)| graph.names.find(name)).collect();
        let mut found: FxHashMap<Vec<NameId>, Found> = FxHashMap::default();
        let mut joined: Vec<Joined<'_>> = Vec::new();
        let (mut kernels, mut several) = (0, 0);
        for replay in &replays {
            kernels += replay.kernels.len();
            let sequence: Vec<NameId> = replay.kernels.iter().map(|&node| graph.tasks[node].name).collect();
            match found.entry(sequence).or_insert_with_key(|sequence| self.find(sequence, &known)) {
                Found::Piece(piece, pairs) => joined.push(Joined { replay, piece: *piece, pairs: pairs.clone() }),
                Found::Several => several += replay.kernels.len(),
                Found::None => {}
            }
        }
        let count: usize = joined.iter().map(|one| one.pairs.len()).sum();
        self.insert(graph, joined);
        let text = format!("{count} of {kernels} kernels of replayed graphs have the operators of the capture");
        graph.diagnostics.note(CAPTURED, text);
        if several > 0 {
            let text = format!(
                "{several} kernels of replayed graphs may be of several captures, which worked on other sizes: left without"
            );
            graph.diagnostics.warn("ambiguous-capture", text);
        }
    }

    /// The piece of which `sequence` is a replay; `known` says what the pieces' names are in the graph.
    fn find(&self, sequence: &[NameId], known: &[Option<NameId>]) -> Found {
        let mut best = 0.0;
        let mut alike: Vec<(usize, Vec<(usize, u32)>)> = Vec::new();
        let sequence: Vec<Option<NameId>> = sequence.iter().map(|&name| Some(name)).collect();
        for (index, piece) in self.pieces.iter().enumerate() {
            let names: Vec<Option<NameId>> = piece.kernels.iter().map(|(name, _)| known[name.0 as usize]).collect();
            let pairs: Vec<(usize, usize)> = common_subsequence(&sequence, &names).collect();
            let share = 2.0 * pairs.len() as f64 / (sequence.len() + names.len()).max(1) as f64;
            if share < ALIKE || share < best {
                continue;
            }
            if share > best {
                alike.clear();
            }
            best = share;
            let operator = |&(at, of): &(usize, usize)| Some((at, piece.kernels[of].1?));
            alike.push((index, pairs.iter().filter_map(operator).collect()));
        }
        let Some((first, pairs)) = alike.first().cloned() else { return Found::None };
        let works_on = |(piece, pairs): &(usize, Vec<(usize, u32)>)| {
            let of = |&(at, operator): &(usize, u32)| {
                let operator = &self.pieces[*piece].operators[operator as usize];
                (at, operator.name, operator.operands.clone())
            };
            pairs.iter().map(of).collect::<Vec<_>>()
        };
        let is_one = alike.iter().skip(1).all(|other| works_on(other) == works_on(&alike[0]));
        if is_one { Found::Piece(first, pairs) } else { Found::Several }
    }

    /// Puts the operators of the pieces where the graphs were launched, and their kernels under them.
    fn insert(&self, graph: &mut ExecutionGraph, joined: Vec<Joined<'_>>) {
        let mut operands: FxHashMap<Operands, OperandsId> =
            graph.operands.iter().cloned().enumerate().map(|(at, one)| (one, OperandsId(at as u32))).collect();
        let place = |replay: &Replay| {
            let call = &graph.tasks[replay.call];
            graph.operators.partition_point(|one| (one.lane, one.start) <= (call.lane, call.measured_start))
        };
        let mut joined: Vec<(usize, Joined<'_>)> = joined.into_iter().map(|one| (place(one.replay), one)).collect();
        joined.sort_by_key(|(place, one)| (*place, graph.tasks[one.replay.call].measured_start, one.replay.call));
        let old = std::mem::take(&mut graph.operators);
        let mut number: Vec<u32> = Vec::with_capacity(old.len());
        let mut all: Vec<Operator> = Vec::with_capacity(old.len());
        let mut taken: Vec<(NodeId, OperatorId)> = Vec::new();
        let mut joined = joined.into_iter().peekable();
        for at in 0..=old.len() {
            while let Some((_, Joined { replay, piece, pairs })) = joined.next_if(|(place, _)| *place == at) {
                let first = all.len() as u32;
                self.add_operators(graph, (replay, piece), (&mut all, &mut operands), &number);
                taken.extend(pairs.iter().map(|&(kernel, own)| (replay.kernels[kernel], OperatorId(first + own))));
            }
            if let Some(&operator) = old.get(at) {
                number.push(all.len() as u32);
                all.push(operator);
            }
        }
        let renumbered = |id: Option<OperatorId>| id.map(|id| OperatorId(number[id.0 as usize]));
        for &at in &number {
            let operator = &mut all[at as usize];
            (operator.parent, operator.forward) = (renumbered(operator.parent), renumbered(operator.forward));
        }
        for (at, operator) in all.iter_mut().enumerate() {
            operator.subtree_end = OperatorId(at as u32 + 1);
        }
        close_subtrees(&mut all);
        graph.tasks.node_weights_mut().for_each(|task| task.operator = renumbered(task.operator));
        for (node, operator) in taken {
            graph.tasks[node].operator = Some(operator);
        }
        graph.operators = all;
        graph.batch_size = graph.told_batch(&graph.beside_training()).or(graph.batch_size);
    }

    /// Appends the operators of a piece as called where `replay` was launched; `number` is that of each operator before it.
    fn add_operators(
        &self,
        graph: &mut ExecutionGraph,
        (replay, piece): (&Replay, usize),
        (all, known): (&mut Vec<Operator>, &mut FxHashMap<Operands, OperandsId>),
        number: &[u32],
    ) {
        let call = graph.tasks[replay.call];
        let around = call.operator.map(|id| OperatorId(number[id.0 as usize]));
        let first = all.len() as u32;
        for captured in &self.pieces[piece].operators {
            let operands = captured.operands.as_ref().map(|operands| {
                *known.entry(operands.clone()).or_insert_with(|| {
                    graph.operands.push(operands.clone());
                    OperandsId(graph.operands.len() as u32 - 1)
                })
            });
            all.push(Operator {
                name: graph.names.intern(self.names.get(captured.name)),
                parent: captured.caller.map(|caller| OperatorId(first + caller)).or(around),
                subtree_end: OperatorId(0),
                lane: call.lane,
                event: call.event.unwrap_or_default(),
                start: call.measured_start,
                dur: DurNs::ZERO,
                operands,
                phase: captured.phase,
                forward: None,
                module: graph.names.intern(self.names.get(captured.module)),
                transfer: None,
            });
        }
    }
}

fn operands_of(trace: &Trace, event: EventId) -> Option<Operands> {
    let list = trace.operators.get(event)?.tensors?;
    let args = trace.tensor_args.get(list.index())?;
    let text = |name| trace.names.get(name);
    Some(operands::parse([args.dims, args.types, args.concrete, args.strides].map(text)))
}

/// The launches of graphs with the kernels that they ran.
fn replays(graph: &ExecutionGraph) -> Vec<Replay> {
    let is_graph_launch = |node: NodeId| launches_graph(graph.names.get(graph.tasks[node].name));
    // A call that waited is followed by a joint, from which its work depends.
    let call_of = |node: NodeId| {
        let launch = graph.launch_of(node)?;
        let before = || graph.tasks.neighbors_directed(launch, petgraph::Direction::Incoming);
        Some(launch).filter(|&launch| is_graph_launch(launch)).or_else(|| before().find(|&call| is_graph_launch(call)))
    };
    let mut by_call: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
    let is_kernel = |&node: &NodeId| matches!(graph.tasks[node].kind, TaskKind::Kernel | TaskKind::Collective(_));
    for node in graph.tasks.node_indices().filter(is_kernel) {
        if let Some(call) = call_of(node) {
            by_call.entry(call).or_default().push(node);
        }
    }
    let mut found: Vec<Replay> = by_call.into_iter().map(|(call, kernels)| Replay { call, kernels }).collect();
    for replay in &mut found {
        replay.kernels.sort_by_key(|&node| (graph.tasks[node].measured_start, node));
    }
    found.sort_by_key(|replay| replay.call);
    found
}
