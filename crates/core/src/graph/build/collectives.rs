//! Rule 12: collectives, joined over the ranks that took part.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Clock, Collective, CollectiveId, Dependency, DependencyKind, Operand, OperatorId, Task, TaskKind};
use crate::intern::NameId;
use crate::trace::{CollectiveArgs, EventId};
use crate::units::{Bytes, DurNs, TimeNs};

use super::activities::{Activity, ActivityKind, Stream, plain_kernel_name};
use super::clock;
use super::draft::{Draft, NONE};
use super::emit::Shared;
use super::matching::Groups;
use super::observed::Observed;
use super::operands;
use super::operators::OperatorTable;
use crate::graph::{DType, LaneId};

/// A rank's member of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Position of its rank in the job.
    pub(super) rank: usize,
    /// The work.
    pub(super) activity: u32,
    /// Its stream.
    pub(super) stream: u32,
    /// What is matched: kind as its kernel or its record says, process group, and the ranks of that: groups of one name may be many.
    pub(super) key: [String; 3],
    /// Its kind as far as the host work around its launch tells.
    pub(super) kind: String,
    /// Position in its process group's order; 0 where not recorded.
    pub(super) sequence: u64,
    /// End on a clock that all ranks share.
    pub(super) end: TimeNs,
    /// Its length.
    pub(super) dur: DurNs,
    /// Group size as recorded; 0 where not.
    pub(super) group_size: u32,
    /// Whether its group shares a name with others, and nothing tells which ranks are in which.
    pub(super) is_ambiguous: bool,
    /// Message size; 0 where unknown.
    pub(super) bytes: Bytes,
}

/// Whether collectives take most of a stream's time.
pub(super) fn dominate(observed: &Observed<'_>, stream: &Stream) -> bool {
    let time = |collective: bool| -> DurNs {
        let activities = stream.activities.iter().map(|&activity| observed.activity(activity));
        activities.filter(|activity| (activity.kind == ActivityKind::Collective) == collective).map(Activity::dur).sum()
    };
    time(true) > time(false)
}

/// The collectives of one rank, by start.
pub(super) fn members(observed: &Observed<'_>, rank: usize, zero: TimeNs) -> Vec<Member> {
    let activities =
        (0..observed.activities.list.len() as u32).filter(|&w| observed.activity(w).kind == ActivityKind::Collective);
    activities.map(|activity| member(observed, rank, activity, zero)).collect()
}

fn member(observed: &Observed<'_>, rank: usize, index: u32, zero: TimeNs) -> Member {
    let (trace, activity) = (observed.trace, observed.activity(index));
    let args = trace.collectives.get(activity.event).copied().unwrap_or_default();
    let recorded = trace.names.get(args.name);
    let kernel = trace.names.get(trace.events.name(activity.event));
    let kind = if recorded.is_empty() { kind_of(kernel) } else { kind_of(recorded) };
    let size = DType::parse(trace.names.get(args.dtype)).map_or(Bytes(0), |dtype| Bytes(dtype.size()));
    Member {
        rank,
        activity: index,
        stream: activity.stream,
        kind: kind_in_context(observed, &kind, activity.call),
        key: [kind.clone(), trace.names.get(args.group).to_owned(), trace.names.get(args.ranks).to_owned()],
        sequence: args.sequence,
        end: TimeNs(activity.end.since(zero).0),
        dur: activity.dur(),
        group_size: args.group_size,
        is_ambiguous: false,
        bytes: message(match size * elements(&kind, args) {
            _ if activity.on_host => recorded_bytes(observed, activity.event),
            Bytes(0) => annotated_bytes(observed, activity.call),
            bytes => bytes,
        }),
    }
}

/// Elements of a message, as recorded: of an all-gather those that the rank puts in, otherwise the larger of what goes in and comes out.
fn elements(kind: &str, args: CollectiveArgs) -> u64 {
    match (kind, args.in_elements) {
        ("all-gather", 0) => args.out_elements / u64::from(args.group_size.max(1)),
        ("all-gather", own) => own,
        (_, own) => own.max(args.out_elements),
    }
}

/// A recorded size; 0, as not known, of one that no message has.
fn message(recorded: Bytes) -> Bytes {
    if recorded <= Bytes::MOST { recorded } else { Bytes(0) }
}

/// The size of the tensors that the annotation of a collective around a launch recorded, e.g. `nccl:all_reduce`.
fn annotated_bytes(observed: &Observed<'_>, call: Option<u32>) -> Bytes {
    let Some(call) = call.map(|call| &observed.threads.calls[call as usize]) else { return Bytes(0) };
    let thread = &observed.threads.list[call.thread as usize];
    let name = |event| observed.trace.names.get(observed.trace.events.name(event));
    let mut around = thread.annotations_at(call.start).filter(|&event| name(event).starts_with("nccl:"));
    around.next().map_or(Bytes(0), |event| recorded_bytes(observed, event))
}

/// The size of the tensors that a collective of a host backend, or the annotation of one, recorded.
fn recorded_bytes(observed: &Observed<'_>, event: EventId) -> Bytes {
    let trace = observed.trace;
    let list = trace.operators.get(event).and_then(|args| trace.tensor_args.get(args.tensors?.index()));
    let Some(list) = list else { return Bytes(0) };
    let operands = operands::parse([trace.names.get(list.dims), trace.names.get(list.types), "", ""]);
    operands.inputs.iter().map(Operand::bytes).sum()
}

/// The kind of collective behind a kernel's or a recorded name.
pub(super) fn kind_of(name: &str) -> String {
    let plain = plain_kernel_name(name);
    let known = [
        ("crossdevicereduce", "all-reduce"),
        ("allreduce", "all-reduce"),
        ("alltoall", "all-to-all"),
        ("allgather", "all-gather"),
        ("reducescatter", "reduce-scatter"),
        ("broadcast", "broadcast"),
        ("sendrecv", "send-recv"),
        ("barrier", "barrier"),
        ("reduce", "reduce"),
        ("send", "send-recv"),
        ("recv", "send-recv"),
    ];
    known.iter().find(|(part, _)| plain.contains(part)).map_or_else(|| name.to_owned(), |&(_, kind)| kind.to_owned())
}

/// Groups the members of all ranks into collectives: those of each rank with those of the ranks before it.
///
/// # Arguments
/// `counts`: how many ranks each stands for; `at`: the time at which offsets of clocks are told.
///
/// # Returns
/// The members of each collective, one per rank at most, ordered by end; and the clock of each rank against the first's.
pub(super) fn matched(mut members: Vec<Vec<Member>>, counts: &[u32], at: TimeNs) -> (Vec<Vec<Member>>, Vec<Clock>) {
    keep_ambiguous_apart(&mut members, counts);
    let mut clocks = vec![Clock::default(); members.len()];
    let mut groups = Groups::default();
    for (clock, mut own) in clocks.iter_mut().zip(members) {
        let apart = groups.clocks_apart(&mut own);
        let later = |&(a, b): &(usize, usize)| {
            let end = groups.list[a][0].end;
            (end, own[b].end.since(end))
        };
        *clock = clock::estimate(groups.pairs(&own).iter().map(later).collect(), at);
        for member in &mut own {
            member.end = member.end - clock::ahead(*clock, at, member.end);
        }
        clock.offset += apart;
        let pairs = groups.pairs(&own);
        groups.join(own, &pairs);
    }
    let mut groups = groups.list;
    groups.sort_by_key(|group| (group[0].end, group[0].rank));
    (groups, clocks)
}

/// Keeps each rank's members to themselves whose group is smaller than the number of loaded ranks that have one of its name, where
/// no ranks of it were recorded.
fn keep_ambiguous_apart(members: &mut [Vec<Member>], counts: &[u32]) {
    let is_unlisted = |member: &Member| member.group_size > 0 && member.key[2].is_empty();
    let mut sharing: FxHashMap<String, u32> = FxHashMap::default();
    for (own, count) in members.iter().zip(counts) {
        let unlisted = own.iter().filter(|member| is_unlisted(member));
        let names: FxHashSet<String> = unlisted.map(|member| member.key[1].clone()).collect();
        for name in names {
            *sharing.entry(name).or_default() += count;
        }
    }
    for member in members.iter_mut().flatten() {
        let ranks = sharing.get(&member.key[1]).copied().unwrap_or_default();
        if is_unlisted(member) && member.group_size < ranks {
            (member.is_ambiguous, member.key[2]) = (true, format!("rank {}", member.rank));
        }
    }
}

/// A collective whose members are still tasks of the draft. A matched group of which a member lies outside the window is
/// not joined: its members keep their durations.
pub(super) struct Drafted {
    /// The collective, without members.
    pub(super) collective: Collective,
    /// Its tasks.
    pub(super) tasks: Vec<u32>,
    /// What each of them arrives with; empty where it is not joined.
    pub(super) arrivals: Vec<u32>,
    /// How many ranks were matched, those included whose member lies outside the window.
    pub(super) matched: u32,
    /// Whether nothing tells which ranks are in its group.
    pub(super) is_ambiguous: bool,
    /// What its ranks recorded of the size of one message, where that differs: the least, and the largest.
    pub(super) unlike: Option<(Bytes, Bytes)>,
    /// The recorded size of its group and how many ranks are listed in it, where that differs.
    pub(super) unlike_group: Option<(u32, u32)>,
    /// How many ranks more the group has by what was recorded of it than the job has.
    pub(super) beyond: Option<u32>,
}

/// Joins the matched groups: each member waits for the latest arrival, then takes the transfer time.
///
/// # Arguments
/// `task_of`: by rank and work, the task or [`NONE`]; `virtual_lane`: where joints of each rank go; `counts`: how many ranks
/// each stands for; `world`: how many ranks the job has as recorded, 0 where not.
pub(super) fn join(
    shared: &mut Shared,
    groups: &[Vec<Member>],
    task_of: &[&[u32]],
    virtual_lane: &[LaneId],
    counts: &[u32],
    world: u32,
) -> Vec<Drafted> {
    let world = world.max(counts.iter().sum());
    let mut joined = Vec::new();
    let mut arrival: FxHashMap<u32, u32> = FxHashMap::default();
    for group in groups {
        let present: Vec<(&Member, u32)> = group
            .iter()
            .map(|member| (member, task_of[member.rank][member.activity as usize]))
            .filter(|&(_, task)| task != NONE)
            .collect();
        let Some(&(first, _)) = present.first() else { continue };
        let complete = present.len() == group.len();
        let matched = group.iter().map(|member| counts[member.rank]).sum();
        let ranks: u32 = present.iter().map(|(member, _)| counts[member.rank]).sum();
        let id = CollectiveId(joined.len() as u32);
        let tasks: Vec<u32> = present.iter().map(|&(_, task)| task).collect();
        let bytes: Vec<Bytes> = present
            .iter()
            .map(|&(member, task)| {
                let operator = shared.draft.tasks[task as usize].operator;
                if member.bytes.0 > 0 { member.bytes } else { bytes_in_context(&shared.operators, operator) }
            })
            .collect();
        let transfer = group.iter().map(|member| member.dur).min().unwrap_or_default();
        identify(&mut shared.draft, &tasks, id, &bytes);
        let mut arrivals = Vec::new();
        if tasks.len() > 1 && complete {
            shorten(&mut shared.draft, &tasks, transfer);
            arrivals = add_joints(&mut shared.draft, &tasks, present.iter().map(|(m, _)| virtual_lane[m.rank]));
            arrival.extend(tasks.iter().copied().zip(arrivals.iter().copied()));
        }
        let collective = Collective {
            kind: shared.names.intern(&first.kind),
            group: shared.names.intern(&first.key[1]),
            group_size: group_size(group, world),
            bytes: bytes.iter().copied().max().unwrap_or_default(),
            transfer,
            loaded: ranks,
            members: Vec::new(),
            arrivals: Vec::new(),
        };
        let (is_ambiguous, unlike) = (first.is_ambiguous, unlike_sizes(group));
        let unlike_group = group.iter().find_map(unlike_group);
        let beyond = recorded_size(group).checked_sub(collective.group_size).filter(|&more| more > 0);
        joined.push(Drafted { collective, tasks, arrivals, matched, is_ambiguous, unlike, unlike_group, beyond });
    }
    redirect(&mut shared.draft, &arrival);
    joined
}

/// The least and the largest size that ranks recorded of one message, which is the same for all of them, where they differ.
fn unlike_sizes(group: &[Member]) -> Option<(Bytes, Bytes)> {
    let has_one = match group {
        [one, other] if one.kind == "send-recv" => other.kind == one.kind,
        _ => group.iter().all(|member| ["all-reduce", "broadcast", "reduce"].contains(&member.kind.as_str())),
    };
    let sizes = || group.iter().map(|member| member.bytes).filter(|bytes| bytes.0 > 0);
    let (less, more) = (sizes().min()?, sizes().max()?);
    (has_one && less != more).then_some((less, more))
}

/// The size that a member recorded of its group, and how many ranks it lists in it, where that is another number.
fn unlike_group(member: &Member) -> Option<(u32, u32)> {
    let listed = listed(member)?;
    (member.group_size > 0 && member.group_size != listed).then_some((member.group_size, listed))
}

/// How many ranks a member lists in its group.
fn listed(member: &Member) -> Option<u32> {
    let listed = member.key[2].strip_prefix('[')?.strip_suffix(']')?;
    // Of long lists not all is recorded.
    let ranks: Vec<u32> = listed.split(',').map(|rank| rank.trim().parse().ok()).collect::<Option<_>>()?;
    Some(ranks.len() as u32)
}

/// The largest size of the group that a member recorded; 0 where none did.
fn recorded_size(group: &[Member]) -> u32 {
    group.iter().map(|member| member.group_size).max().unwrap_or_default()
}

/// Ranks of a collective's group: as recorded, but no more than the job has, else all of the job; 0 where only one rank is known of,
/// since nobody ran collectives with itself.
///
/// # Arguments
/// `world`: of the job, those loaded at least.
fn group_size(group: &[Member], world: u32) -> u32 {
    // A list of its ranks speaks for a group that is larger than the job is said to be.
    let of_list = |member: &Member| if member.key[2].is_empty() { 0 } else { listed(member).unwrap_or(u32::MAX) };
    let most = group.iter().map(of_list).fold(if world > 0 { world } else { u32::MAX }, u32::max);
    let recorded = recorded_size(group).min(most);
    // A rank that stands for others may stand for such of other groups.
    match recorded.max(if recorded == 0 { world } else { group.len() as u32 }) {
        1 if recorded == 0 => 0,
        size => size,
    }
}

/// Sets kind and bytes of the members.
fn identify(draft: &mut Draft, tasks: &[u32], id: CollectiveId, bytes: &[Bytes]) {
    for (&task, &bytes) in tasks.iter().zip(bytes) {
        let task: &mut Task = &mut draft.tasks[task as usize];
        task.kind = TaskKind::Collective(id);
        task.bytes = bytes;
    }
}

/// Leaves of each member only what follows the latest arrival; of those so short that clock errors show, the transfer.
fn shorten(draft: &mut Draft, tasks: &[u32], transfer: DurNs) {
    let joined = tasks.iter().map(|&task| draft.tasks[task as usize].measured_start).max().unwrap_or_default();
    for &task in tasks {
        let task = &mut draft.tasks[task as usize];
        let own = task.measured_end().since(joined);
        task.duration = if own * 2 < transfer { transfer } else { own };
    }
}

/// Lets tasks wait for one another.
///
/// # Returns
/// The joint that each arrives with.
fn add_joints(draft: &mut Draft, tasks: &[u32], lanes: impl Iterator<Item = LaneId>) -> Vec<u32> {
    let lanes: Vec<LaneId> = lanes.collect();
    let at = tasks.iter().map(|&task| draft.tasks[task as usize].measured_start).max().unwrap_or_default();
    let join = draft.push(joint(lanes[0], at));
    let arrives = |(&task, &lane): (&u32, &LaneId)| {
        let start = draft.tasks[task as usize].measured_start;
        let arrived = draft.push(joint(lane, start));
        draft.edge(arrived, join, Dependency::on_end(DependencyKind::Collective, DurNs::ZERO));
        draft.edge(join, task, Dependency::on_end(DependencyKind::Collective, DurNs::ZERO));
        arrived
    };
    tasks.iter().zip(&lanes).map(arrives).collect()
}

fn joint(lane: LaneId, at: TimeNs) -> Task {
    Task {
        kind: TaskKind::Joint,
        lane,
        name: NameId(0),
        operator: None,
        event: None,
        measured_start: at,
        measured: DurNs::ZERO,
        duration: DurNs::ZERO,
        bytes: Bytes(0),
    }
}

/// What a member waited for now holds back its arrival; what shared the device with it is let go as long before its end
/// as measured.
fn redirect(draft: &mut Draft, arrival: &FxHashMap<u32, u32>) {
    let Draft { tasks, edges } = draft;
    let mut is_member = vec![false; tasks.len()];
    for &task in arrival.keys() {
        is_member[task as usize] = true;
    }
    edges.par_iter_mut().filter(|edge| edge.dependency.kind != DependencyKind::Collective).for_each(|edge| {
        if is_member[edge.to as usize]
            && let Some(&arrived) = arrival.get(&edge.to)
        {
            edge.to = arrived;
        }
        if is_member[edge.from as usize] && edge.dependency.of_predecessor > 0.0 {
            let from = &tasks[edge.from as usize];
            let before_end = from.measured.scale(f64::from(edge.dependency.of_predecessor));
            let within = before_end.min(from.duration);
            edge.dependency.of_predecessor = (within.0 as f64 / from.duration.0.max(1) as f64) as f32;
            edge.dependency.lag -= before_end - within;
        }
    });
}

/// Point-to-point kernels launched inside an all-to-all are that all-to-all.
fn kind_in_context(observed: &Observed<'_>, kind: &str, call: Option<u32>) -> String {
    let Some(call) = call.map(|call| &observed.threads.calls[call as usize]).filter(|_| kind == "send-recv") else {
        return kind.to_owned();
    };
    let thread = &observed.threads.list[call.thread as usize];
    let operators = std::iter::successors(call.operator, |&at| thread.operators[at as usize].parent);
    let around = operators.map(|at| thread.operators[at as usize].event).chain(thread.annotations_at(call.start));
    let name = |event| observed.trace.names.get(observed.trace.events.name(event));
    let exchange = around.map(|event| kind_of(name(event))).any(|kind| kind == "all-to-all");
    if exchange { "all-to-all".to_owned() } else { kind.to_owned() }
}

/// The size of a message as far as the operators around its launch tell: that of the largest tensor among the operands
/// of the innermost one that recorded any.
fn bytes_in_context(operators: &OperatorTable, operator: Option<OperatorId>) -> Bytes {
    let around = std::iter::successors(operator, |id| operators.list[id.0 as usize].parent);
    let operands = around.filter_map(|id| operators.operands.get(operators.list[id.0 as usize].operands?.0 as usize));
    operands
        .map(|operands| operands.inputs.iter().map(Operand::bytes).max().unwrap_or_default())
        .find(|bytes| bytes.0 > 0)
        .unwrap_or_default()
}
