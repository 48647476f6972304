//! What collectives are for: from their kinds, their process groups, the ranks in them and their place in the step.

use std::collections::{BTreeMap, BTreeSet};

use crate::cost::CollectiveKind;
use crate::graph::{Collective, ExecutionGraph, NodeId, OperatorId, Phase, RankPart, TaskKind};
use crate::intern::NameId;
use crate::memory::parameters::updated_bytes;
use crate::units::TimeNs;

/// What a collective carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Gradients of ranks that each hold a copy of the parameters.
    Gradients,
    /// Parameters that data-parallel ranks share out, and their gradients.
    Shards,
    /// Activations and their gradients, of layers that ranks share out.
    Activations,
    /// What ranks look up for one another in embedding tables.
    Lookups,
    /// What ranks compute for one another in experts.
    Experts,
    /// Something else, or nothing tells.
    Other,
}

impl Role {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gradients => "gradients of data-parallel ranks",
            Self::Shards => "sharded parameters",
            Self::Activations => "activations of tensor parallelism",
            Self::Lookups => "embedding exchange",
            Self::Experts => "experts",
            Self::Other => "of a role that nothing tells",
        }
    }

    /// Whether its groups are ranks that do the same to other samples.
    pub fn is_data_parallel(self) -> bool {
        matches!(self, Self::Gradients | Self::Shards)
    }
}

/// Part of the all-reduced bytes of a backward pass from which a group that reduces as many in the forward pass reduces activations:
/// tensor parallelism reduces the same in both, data-parallel ranks only statistics in the forward pass.
const AS_MUCH: f64 = 0.25;

/// Part of the bytes that a rank's largest gradients come to from which another group that adds some up holds copies: numbers of a step,
/// as norms and losses, are less.
const LITTLE: f64 = 0.01;

/// Part of the bytes of their parameters from which ranks that send to one another are copies all the same, as where they share out a
/// sequence: of stages only some parameters are the same.
const MOST_OF: f64 = 0.5;

/// What a process group does, all its collectives together.
#[derive(Clone, Copy, Debug, Default)]
struct Habits {
    /// All-reduced in the forward pass, and later: bytes, or times where some size was not recorded.
    reduced: [f64; 2],
    /// Whether it scatters in the forward pass, and later.
    scatters: [bool; 2],
}

/// By collective of the graph what it carries.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    of: Vec<Role>,
    share_a_batch: u32,
    unlike: Option<Unlike>,
}

/// Why ranks are no copies of one another that each work on samples of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlike {
    /// They pass on what they compute, and not all of them add up gradients.
    Stages,
    /// They update parameters of unlike sizes, and nothing adds up their gradients: what they do for one another is not known.
    Parameters,
}

impl Roles {
    /// Tells them.
    ///
    /// # Complexity
    /// O(tasks · log collectives).
    pub fn of(graph: &ExecutionGraph) -> Self {
        let steps = Steps::of(graph);
        let is_known = graph.collectives.iter().all(|one| one.bytes.0 > 0);
        let weight = |one: &Collective| if is_known { one.bytes.0 as f64 } else { one.transfer.0 as f64 };
        let mut groups: BTreeMap<(NameId, u32), Habits> = BTreeMap::new();
        for one in &graph.collectives {
            let habits = groups.entry((one.group, one.group_size)).or_default();
            // Of a step of which only the end was recorded nothing tells the pass.
            let later = match steps.phase(graph, one) {
                _ if adds_to_gradient(graph, one) => 1,
                Phase::Forward => 0,
                Phase::Backward | Phase::Optimizer => 1,
                Phase::Data | Phase::Other => continue,
            };
            match kind_of(graph, one) {
                Some(CollectiveKind::AllReduce) => habits.reduced[later] += weight(one),
                Some(CollectiveKind::ReduceScatter) => habits.scatters[later] = true,
                _ => {}
            }
        }
        let role = |one: &Collective| {
            let habits = groups.get(&(one.group, one.group_size)).copied().unwrap_or_default();
            steps.role(graph, one, habits)
        };
        let of: Vec<Role> = graph.collectives.iter().map(role).collect();
        let layers = graph.collectives.iter().zip(&of).filter(|(_, role)| **role == Role::Activations);
        let layers = layers.map(|(one, _)| one.group_size).max().unwrap_or_default().max(1);
        let (copies, unlike) = copies(graph, &of, &steps);
        let share_a_batch = layers.max(graph.job_size().div_ceil(copies.max(1)));
        Self { of, share_a_batch, unlike }
    }

    /// Why some ranks work on the samples of others or may do so, beside those that share out layers; `None` where nothing tells of any.
    pub fn unlike(&self) -> Option<Unlike> {
        self.unlike
    }

    /// How many ranks work on one batch, as they share out layers or are stages of a pipeline, or may do so; 1 where none do.
    pub fn share_a_batch(&self) -> u32 {
        self.share_a_batch
    }

    /// What a task carries; [`Role::Other`] for tasks that are no collectives.
    pub(super) fn role(&self, task: TaskKind) -> Role {
        let TaskKind::Collective(id) = task else { return Role::Other };
        self.of.get(id.0 as usize).copied().unwrap_or(Role::Other)
    }
}

/// How many ranks of the job are copies of one another, and why that is not all of them. Where ranks send and receive what they compute, a
/// rank has as many copies as ranks add up its gradients with it, but for groups that hold one which it sends to and add up only some of
/// them; where ranks that nothing joins update unlike parameters, one is no copy of another.
///
/// # Arguments
/// `of`: what each collective carries.
fn copies(graph: &ExecutionGraph, of: &[Role], steps: &Steps) -> (u32, Option<Unlike>) {
    let all = graph.job_size();
    // A kernel of which no group was recorded may be part of an exchange of look-ups.
    let is_send = |one: &Collective| kind_of(graph, one) == Some(CollectiveKind::SendRecv);
    let is_passed_on = |one: &Collective| is_send(one) && !(steps.looks_up && graph.names.get(one.group).is_empty());
    let is_only = graph.collectives.iter().all(is_passed_on);
    if graph.collectives.iter().any(is_passed_on) && (steps.is_told || is_only) {
        let pairs: BTreeSet<Vec<usize>> =
            graph.collectives.iter().filter(|one| is_send(one)).map(|one| places(graph, one)).collect();
        let adds_up = graph.collectives.iter().zip(of).filter(|(_, role)| role.is_data_parallel()).map(|(one, _)| one);
        let copies = fewest_copies(graph, adds_up, &pairs);
        return (copies, (copies < all).then_some(Unlike::Stages));
    }
    // How often parameters of a size are updated follows from what a rank's iteration was taken to be.
    let sizes = |part: &RankPart| -> Vec<u64> {
        graph.updated_sizes(part, &(part.iteration_start..part.iteration_end)).into_keys().collect()
    };
    let is_alike = |pair: &[Vec<u64>]| pair[0] == pair[1] || pair.iter().any(Vec::is_empty);
    if graph.collectives.is_empty() && !graph.ranks.iter().map(sizes).collect::<Vec<_>>().windows(2).all(is_alike) {
        return (1, Some(Unlike::Parameters));
    }
    (all, None)
}

/// How many ranks add up their gradients with the rank that does so with the fewest, in groups that do it with much of them: a norm of
/// all gradients and whether some number overflowed is known to all ranks.
///
/// # Arguments
/// `pairs`: ranks that send to one another, by position.
fn fewest_copies<'a>(
    graph: &ExecutionGraph,
    adds_up: impl Iterator<Item = &'a Collective>,
    pairs: &BTreeSet<Vec<usize>>,
) -> u32 {
    let belongs = graph.iteration_tasks();
    let is_own = |one: &&Collective| one.members.iter().any(|member| belongs[member.index()]);
    // Bytes by ranks and how large their group is.
    let mut groups: BTreeMap<(Vec<usize>, u32), f64> = BTreeMap::new();
    for one in adds_up.filter(is_own) {
        let size = if one.group_size > 0 { one.group_size } else { graph.job_size() };
        *groups.entry((places(graph, one), size)).or_default() += one.bytes.0 as f64;
    }
    let updated = updated(graph);
    let mut by_rank: Vec<BTreeMap<u32, f64>> = vec![BTreeMap::new(); graph.ranks.len()];
    for ((places, size), bytes) in groups {
        let sends = pairs.iter().any(|pair| pair.len() > 1 && pair.iter().all(|place| places.contains(place)));
        let all = places.iter().map(|&place| updated[place]).fold(0.0, f64::max);
        if !sends || (all > 0.0 && bytes >= MOST_OF * all) {
            for &place in &places {
                *by_rank[place].entry(size).or_default() += bytes;
            }
        }
    }
    let largest = |groups: &BTreeMap<u32, f64>| {
        let most = groups.values().copied().fold(0.0, f64::max);
        groups.iter().rev().find(|&(_, &bytes)| bytes >= LITTLE * most).map_or(1, |(&size, _)| size)
    };
    by_rank.iter().map(largest).min().unwrap_or(1)
}

/// By rank the bytes of the parameters that it updates, 0 where that is not known.
fn updated(graph: &ExecutionGraph) -> Vec<f64> {
    let bytes = |part: &RankPart| updated_bytes(graph, part).map_or(0.0, |(parameters, _)| parameters as f64);
    graph.ranks.iter().map(bytes).collect()
}

/// The ranks of a collective that are loaded, by position.
fn places(graph: &ExecutionGraph, one: &Collective) -> Vec<usize> {
    let ranks = one.members.iter().map(|&member| graph.lanes[graph.tasks[member].lane.0 as usize].rank);
    ranks.filter_map(|rank| graph.place_of(rank)).collect()
}

fn kind_of(graph: &ExecutionGraph, one: &Collective) -> Option<CollectiveKind> {
    CollectiveKind::parse(graph.names.get(one.kind))
}

/// Where passes begin and end, by rank.
struct Steps {
    /// Starts of the backward passes' first kernels and of the forward passes' first after them.
    passes: Vec<Vec<(TimeNs, Phase)>>,
    /// Whether tables are looked up.
    looks_up: bool,
    /// Whether operators say what is of which pass.
    is_told: bool,
}

impl Steps {
    fn of(graph: &ExecutionGraph) -> Self {
        let mut passes = vec![Vec::new(); graph.ranks.len()];
        for node in graph.tasks.node_indices().filter(|&node| is_computation(graph, node)) {
            let Some(phase) = phase_of(graph, node).filter(|phase| *phase != Phase::Other) else { continue };
            let rank = graph.lanes[graph.tasks[node].lane.0 as usize].rank;
            let Some(at) = graph.place_of(rank) else { continue };
            passes[at].push((graph.tasks[node].measured_start, phase));
        }
        for starts in &mut passes {
            starts.sort_unstable();
            starts.dedup_by_key(|(_, phase)| *phase);
        }
        let looks_up =
            |name: &str| ["embedding_bag", "codegen_lookup", "split_embedding"].iter().any(|it| name.contains(it));
        let looks_up = graph.operators.iter().any(|operator| looks_up(graph.names.get(operator.name)));
        let is_told = passes.iter().any(|starts| !starts.is_empty());
        Self { passes, looks_up, is_told }
    }

    /// The pass in which a collective runs: that of its operator where that comes after the forward pass, else of what was
    /// computed last before it.
    fn phase(&self, graph: &ExecutionGraph, one: &Collective) -> Phase {
        let Some(&member) = one.members.first() else { return Phase::Other };
        let own = phase_of(graph, member);
        let before = || {
            let task = &graph.tasks[member];
            let rank = graph.lanes[task.lane.0 as usize].rank;
            let starts = &self.passes[graph.place_of(rank)?];
            let at = starts.partition_point(|(start, _)| *start <= task.measured_start);
            Some(starts[at.checked_sub(1)?].1)
        };
        let is_later = |phase: &Phase| matches!(phase, Phase::Backward | Phase::Optimizer);
        own.filter(is_later).or_else(before).or(own).unwrap_or(Phase::Other)
    }

    fn role(&self, graph: &ExecutionGraph, one: &Collective, habits: Habits) -> Role {
        let later = match self.phase(graph, one) {
            Phase::Backward | Phase::Optimizer => true,
            Phase::Forward => false,
            Phase::Data | Phase::Other => habits.reduced[1] > 0.0 || habits.scatters[1],
        };
        let trains = self.passes.iter().flatten().any(|(_, phase)| *phase == Phase::Backward);
        let [forward, backward] = habits.reduced;
        let reduces_activations = forward > 0.0 && forward >= backward * AS_MUCH;
        match kind_of(graph, one) {
            _ if !self.is_told => Role::Other,
            Some(CollectiveKind::AllToAll) if self.looks_up => Role::Lookups,
            Some(CollectiveKind::AllToAll) => Role::Experts,
            Some(CollectiveKind::AllReduce) if adds_to_gradient(graph, one) => Role::Gradients,
            Some(CollectiveKind::AllReduce) if reduces_activations => Role::Activations,
            Some(CollectiveKind::AllReduce | CollectiveKind::Reduce) if later => Role::Gradients,
            Some(CollectiveKind::AllGather | CollectiveKind::ReduceScatter) => match habits.scatters {
                // In a forward pass it adds up parts of tables that are cut by rows.
                [true, _] if self.looks_up => Role::Lookups,
                [true, _] => Role::Activations,
                [false, true] => Role::Shards,
                [false, false] if !trains => Role::Activations,
                [false, false] if later => Role::Shards,
                [false, false] => Role::Other,
            },
            _ => Role::Other,
        }
    }
}

/// Whether it was called where a parameter's gradient was added up.
fn adds_to_gradient(graph: &ExecutionGraph, one: &Collective) -> bool {
    let operator = |id: OperatorId| graph.operators.get(id.0 as usize);
    let around = |&member: &NodeId| std::iter::successors(graph.tasks[member].operator, |&id| operator(id)?.parent);
    let name = |id: OperatorId| operator(id).map_or("", |operator| graph.names.get(operator.name));
    one.members.iter().flat_map(around).any(|id| name(id).contains("AccumulateGrad"))
}

fn phase_of(graph: &ExecutionGraph, node: NodeId) -> Option<Phase> {
    Some(graph.operators[graph.tasks[node].operator?.0 as usize].phase)
}

fn is_computation(graph: &ExecutionGraph, node: NodeId) -> bool {
    matches!(graph.tasks[node].kind, TaskKind::Kernel | TaskKind::Compute)
}
