//! The operators of one step of a made-up DLRM: table-batched look-ups, all-to-all, two MLPs, their gradients, all-reduce.

use retime_core::cost::collective::collective_time;
use retime_core::cost::operators::{LookupSize, Reading, lookup_work, operator_work};
use retime_core::cost::{CollectiveKind, Reuse, Shape, Work};
use retime_core::graph::{DType, Operand, Operands};
use retime_core::units::DurNs;

use super::{Machine, SyntheticJob, SyntheticTable};

/// One operator of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// As the profiler names it.
    pub name: &'static str,
    /// Shapes of its arguments.
    pub inputs: Vec<Operand>,
    /// Host overheads T1 to T5 in ns, at index 1 to 5.
    pub overheads: [i64; 6],
    /// Its kernels with their times.
    pub kernels: Vec<(&'static str, DurNs)>,
    /// What it exchanges.
    pub collective: Option<Collective>,
    /// Whether it reads what the last collective brought.
    pub reads_collective: bool,
    /// Ties a gradient to its forward operator.
    pub sequence: Option<i64>,
    /// Whether it is part of the backward pass.
    pub is_gradient: bool,
}

/// A collective of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Name in the record.
    pub name: &'static str,
    /// Elements of one rank's message.
    pub elements: u64,
}

/// Host overheads of every operator, in ns: T1 to T5 [Lin22 Fig. 6, orders of magnitude on a V100].
const OVERHEADS: [i64; 6] = [0, 8_000, 12_000, 6_000, 10_000, 5_000];
/// The sequence number of the look-up.
const LOOKUP: i64 = 1;

pub(super) fn operators(job: &SyntheticJob, machine: Machine<'_>) -> Vec<Vec<Operator>> {
    let mut own: Vec<Vec<&SyntheticTable>> = vec![Vec::new(); job.spec.ranks as usize];
    for (table, &rank) in job.tables.iter().zip(&job.placement) {
        own[rank].push(table);
    }
    let deeper = std::iter::repeat_n(512, job.spec.layers as usize);
    let network = &job.network;
    let dense = network.bottom.last().copied().unwrap_or(1);
    let widest = job.tables.iter().map(|table| table.dim).max().unwrap_or(1);
    let top = std::iter::once(dense + widest).chain(network.top.iter().copied()).chain(deeper).chain([1]).collect();
    let (batch, ranks) = (job.spec.local_batch, job.spec.ranks);
    let build = Builder { machine, batch, ranks, bottom: network.bottom.clone(), top };
    let columns = |tables: &[&SyntheticTable]| tables.iter().map(|table| table.dim).sum::<u64>();
    let exchanged = job.batch() * own.iter().map(|tables| columns(tables)).max().unwrap_or(0);
    let looked_up: Vec<Lookup> = own.iter().map(|tables| Lookup::of(tables, job.batch())).collect();
    let all: u64 = looked_up.iter().map(|lookup| lookup.columns).sum();
    looked_up.iter().map(|lookup| build.rank(lookup, exchanged, all)).collect()
}

/// The batched look-up of a rank.
struct Lookup {
    /// Means over its tables.
    size: LookupSize,
    /// Each of its tables as one of as many alike, and which rows, where told.
    each: Vec<(LookupSize, Reuse)>,
    /// Elements of a row of every table.
    columns: u64,
    /// Elements of all tables.
    weights: u64,
    /// Rows looked up in a batch.
    count: u64,
    /// The largest row.
    widest: u64,
}

impl Lookup {
    fn of(tables: &[&SyntheticTable], batch: u64) -> Self {
        let mean = |sum: u64| sum / tables.len().max(1) as u64;
        let columns: u64 = tables.iter().map(|table| table.dim).sum();
        let weights: u64 = tables.iter().map(|table| table.rows * table.dim).sum();
        // As a trace tells them: the elements of all tables over those of a row.
        let dim = mean(columns);
        let pooling: f64 = tables.iter().map(|table| table.pooling).sum();
        let size = LookupSize {
            batch,
            rows: mean(weights / dim.max(1)),
            tables: tables.len() as u64,
            pooling: pooling / tables.len().max(1) as f64,
            dim,
        };
        Self {
            size,
            columns,
            weights,
            count: (batch as f64 * pooling).round() as u64,
            widest: tables.iter().map(|table| table.dim).max().unwrap_or(0),
            each: tables.iter().map(|table| (table.alike(batch, tables.len()), table.reuse.clone())).collect(),
        }
    }

    /// The work of as many tables as there are, all like each of them in turn.
    fn works(&self, is_gradient: bool) -> impl Iterator<Item = Work> {
        self.each.iter().map(move |(size, told)| {
            let mut work = lookup_work(size, is_gradient, DType::Fp32, DType::Int64);
            if let Shape::Embedding { reuse, .. } = &mut work.shape {
                reuse.clone_from(told);
            }
            work
        })
    }
}

impl SyntheticTable {
    /// The sizes of a look-up in `count` tables like this one.
    fn alike(&self, batch: u64, count: usize) -> LookupSize {
        LookupSize { batch, rows: self.rows, tables: count as u64, pooling: self.pooling, dim: self.dim }
    }
}

struct Builder<'a> {
    machine: Machine<'a>,
    batch: u64,
    ranks: u32,
    /// Widths from the dense features on.
    bottom: Vec<u64>,
    /// Widths after the interaction.
    top: Vec<u64>,
}

impl Builder<'_> {
    /// One step of a rank with `lookup`; `exchanged` elements go through each all-to-all, `columns` are those of all tables.
    fn rank(&self, lookup: &Lookup, exchanged: u64, columns: u64) -> Vec<Operator> {
        let mut all = vec![self.lookup(lookup), self.exchange(exchanged)];
        self.mlp(&self.bottom, &mut all);
        let pooled = self.simple("aten::sum", &[&[self.batch, columns]], "reduce_kernel<512, 1, float>");
        all.push(Operator { reads_collective: true, ..pooled });
        self.mlp(&self.top, &mut all);
        self.mlp_gradient(&self.top, &mut all);
        all.push(Operator { is_gradient: true, ..self.exchange(exchanged) });
        self.mlp_gradient(&self.bottom, &mut all);
        all.push(Operator { reads_collective: true, is_gradient: true, ..self.lookup_gradient(lookup) });
        let parameters = layers(&self.bottom).chain(layers(&self.top)).map(|(k, n)| k * n + n).sum();
        all.push(self.collective("allreduce", CollectiveKind::AllReduce, parameters));
        let update =
            self.simple("aten::add_", &[&[parameters], &[parameters]], "vectorized_elementwise_kernel<4, add>");
        all.push(Operator { reads_collective: true, ..update });
        all
    }

    fn lookup(&self, lookup: &Lookup) -> Operator {
        let size = &lookup.size;
        let long = |count: u64| tensor(&[count], DType::Int64);
        let value = |number: u64| Operand::Value(number.to_string());
        let inputs = vec![
            tensor(&[0], DType::Fp32),
            tensor(&[lookup.weights], DType::Fp32),
            tensor(&[0], DType::Fp32),
            tensor(&[0], DType::Int32),
            long(size.tables),
            long(size.tables),
            long(size.tables + 1),
            value(lookup.columns),
            value(lookup.widest),
            long(size.tables + 1),
            value(32),
            long(lookup.count),
            long(size.batch * size.tables + 1),
        ];
        let time = self.look_up_time(lookup, false);
        Operator {
            sequence: Some(LOOKUP),
            ..operator(
                "fbgemm::split_embedding_codegen_lookup_sgd_function",
                inputs,
                vec![("split_embedding_codegen_forward_unweighted_kernel<float, float, float, 64>", time)],
            )
        }
    }

    fn lookup_gradient(&self, lookup: &Lookup) -> Operator {
        let time = self.look_up_time(lookup, true);
        // One kernel does the whole: of two, one for rows that recur often, each would be taken for half.
        let name = "split_embedding_backward_codegen_sgd_unweighted_kernel<float, float, 1>";
        let gradient = tensor(&[lookup.size.batch, lookup.columns], DType::Fp32);
        Operator {
            sequence: Some(LOOKUP),
            ..operator(
                "autograd::engine::evaluate_function: CppNode<SplitLookupFunction_sgd_Op>",
                vec![gradient],
                vec![(name, time)],
            )
        }
    }

    fn mlp(&self, widths: &[u64], all: &mut Vec<Operator>) {
        for (k, n) in layers(widths) {
            all.push(self.simple("aten::addmm", &[&[n], &[self.batch, k], &[k, n]], "volta_sgemm_128x64_tn"));
            all.push(self.simple("aten::relu", &[&[self.batch, n]], "vectorized_elementwise_kernel<4, relu>"));
        }
    }

    /// Of each layer, last first: the weights' gradient and the input's.
    fn mlp_gradient(&self, widths: &[u64], all: &mut Vec<Operator>) {
        let mut list: Vec<(u64, u64)> = layers(widths).collect();
        list.reverse();
        for (k, n) in list {
            let product =
                |inputs: &[&[u64]], kernel| Operator { is_gradient: true, ..self.simple("aten::mm", inputs, kernel) };
            all.push(product(&[&[n, self.batch], &[self.batch, k]], "volta_sgemm_128x64_nt"));
            all.push(product(&[&[self.batch, n], &[n, k]], "volta_sgemm_128x64_nn"));
        }
    }

    fn exchange(&self, elements: u64) -> Operator {
        self.collective("all_to_all", CollectiveKind::AllToAll, elements)
    }

    fn collective(&self, name: &'static str, kind: CollectiveKind, elements: u64) -> Operator {
        let time = collective_time(kind, elements * 4, self.ranks, self.machine.link);
        let kernel = match kind {
            CollectiveKind::AllReduce => "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            _ => "ncclDevKernel_SendRecv",
        };
        let operator =
            operator("record_param_comms", vec![tensor(&[elements], DType::Fp32)], vec![(kernel, micros(time.us))]);
        Operator { collective: Some(Collective { name, elements }), ..operator }
    }

    /// An operator of one kernel on fp32 tensors.
    fn simple(&self, name: &'static str, shapes: &[&[u64]], kernel: &'static str) -> Operator {
        let inputs: Vec<Operand> = shapes.iter().map(|dims| tensor(dims, DType::Fp32)).collect();
        let operands = Operands { inputs: inputs.clone(), ..Operands::default() };
        let work = operator_work(name, &operands, Reading::default());
        let time = work.map_or(DurNs::ZERO, |work| self.time(&work));
        operator(name, inputs, vec![(kernel, time)])
    }

    /// What one look-up in tables of several sizes takes: of each as large a part as it is one of as many alike.
    fn look_up_time(&self, lookup: &Lookup, is_gradient: bool) -> DurNs {
        let part = 1.0 / lookup.each.len().max(1) as f64;
        lookup.works(is_gradient).map(|work| self.time(&work).scale(part)).sum()
    }

    fn time(&self, work: &Work) -> DurNs {
        self.machine.models.estimate(work, self.machine.device).map_or(DurNs::ZERO, |estimate| estimate.duration)
    }
}

fn layers(widths: &[u64]) -> impl Iterator<Item = (u64, u64)> + '_ {
    widths.windows(2).map(|pair| (pair[0], pair[1]))
}

fn micros(us: f64) -> DurNs {
    DurNs((us * 1e3).round() as i64)
}

fn tensor(dims: &[u64], dtype: DType) -> Operand {
    Operand::tensor(dims.to_vec(), Some(dtype))
}

fn operator(name: &'static str, inputs: Vec<Operand>, kernels: Vec<(&'static str, DurNs)>) -> Operator {
    Operator {
        name,
        inputs,
        overheads: OVERHEADS,
        kernels,
        collective: None,
        reads_collective: false,
        sequence: None,
        is_gradient: false,
    }
}
