//! The operators of one step of a made-up DLRM: table-batched look-ups, all-to-all, two MLPs, their gradients, all-reduce.

use retime_core::cost::collective::collective_time;
use retime_core::cost::operators::{LookupSize, Reading, lookup_work, operator_work};
use retime_core::cost::{CollectiveKind, Work};
use retime_core::graph::{DType, Operand, Operands};
use retime_core::units::DurNs;

use super::{DIM, Machine, SyntheticJob};

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
/// Layer widths after the 256 dense features, and after the interaction.
const BOTTOM: [u64; 4] = [256, 512, 256, DIM];
const TOP: [u64; 3] = [2 * DIM, 1024, 512];
/// The sequence number of the look-up.
const LOOKUP: i64 = 1;

pub(super) fn operators(job: &SyntheticJob, machine: Machine<'_>) -> Vec<Vec<Operator>> {
    let ranks = job.spec.ranks as usize;
    let mut own = vec![Vec::new(); ranks];
    for (table, &rank) in job.tables.iter().zip(&job.placement) {
        own[rank].push(*table);
    }
    let most = own.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let deeper = std::iter::repeat_n(512, job.spec.layers as usize);
    let top = TOP.into_iter().chain(deeper).chain([1]).collect();
    let build = Builder { machine, batch: job.spec.local_batch, ranks: job.spec.ranks, top };
    let exchanged = job.batch() * most * DIM;
    own.iter()
        .map(|tables| {
            let size = LookupSize {
                batch: job.batch(),
                rows: mean(tables.iter().map(|table| table.rows)),
                tables: tables.len() as u64,
                pooling: tables.iter().map(|table| table.pooling).sum::<u64>() as f64 / tables.len().max(1) as f64,
                dim: DIM,
            };
            let all: u64 = tables.iter().map(|table| table.rows * DIM).sum();
            build.rank(&size, all, exchanged, job.tables.len() as u64)
        })
        .collect()
}

fn mean(values: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = values.len().max(1) as u64;
    values.sum::<u64>() / count
}

struct Builder<'a> {
    machine: Machine<'a>,
    batch: u64,
    ranks: u32,
    /// Widths after the interaction.
    top: Vec<u64>,
}

impl Builder<'_> {
    fn rank(&self, size: &LookupSize, weights: u64, exchanged: u64, tables: u64) -> Vec<Operator> {
        let mut all = vec![self.lookup(size, weights), self.exchange(exchanged)];
        self.mlp(&BOTTOM, &mut all);
        let pooled = self.simple("aten::sum", &[&[self.batch, tables, DIM]], "reduce_kernel<512, 1, float>");
        all.push(Operator { reads_collective: true, ..pooled });
        self.mlp(&self.top, &mut all);
        self.mlp_gradient(&self.top, &mut all);
        all.push(Operator { is_gradient: true, ..self.exchange(exchanged) });
        self.mlp_gradient(&BOTTOM, &mut all);
        all.push(Operator { reads_collective: true, is_gradient: true, ..self.lookup_gradient(size) });
        let parameters = layers(&BOTTOM).chain(layers(&self.top)).map(|(k, n)| k * n + n).sum();
        all.push(self.collective("allreduce", CollectiveKind::AllReduce, parameters));
        let update =
            self.simple("aten::add_", &[&[parameters], &[parameters]], "vectorized_elementwise_kernel<4, add>");
        all.push(Operator { reads_collective: true, ..update });
        all
    }

    fn lookup(&self, size: &LookupSize, weights: u64) -> Operator {
        let bags = size.batch * size.tables;
        let looked_up = (bags as f64 * size.pooling).round() as u64;
        let long = |count: u64| tensor(&[count], DType::Int64);
        let value = |number: u64| Operand::Value(number.to_string());
        let inputs = vec![
            tensor(&[0], DType::Fp32),
            tensor(&[weights], DType::Fp32),
            tensor(&[0], DType::Fp32),
            tensor(&[0], DType::Int32),
            long(size.tables),
            long(size.tables),
            long(size.tables + 1),
            value(size.tables * DIM),
            value(DIM),
            long(size.tables + 1),
            value(32),
            long(looked_up),
            long(bags + 1),
        ];
        let time = self.time(&lookup_work(size, false, DType::Fp32, DType::Int64));
        Operator {
            sequence: Some(LOOKUP),
            ..operator(
                "fbgemm::split_embedding_codegen_lookup_sgd_function",
                inputs,
                vec![("split_embedding_codegen_forward_unweighted_kernel<float, float, float, 64>", time)],
            )
        }
    }

    fn lookup_gradient(&self, size: &LookupSize) -> Operator {
        let time = self.time(&lookup_work(size, true, DType::Fp32, DType::Int64));
        let name = "split_embedding_backward_codegen_sgd_unweighted_kernel_warp_per_row_1<float, float, 1>";
        let gradient = tensor(&[size.batch, size.tables * DIM], DType::Fp32);
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
        let work = operator_work(name, &operands, Reading { dtype: DType::Fp32, tf32: false });
        let time = work.map_or(DurNs::ZERO, |work| self.time(&work));
        operator(name, inputs, vec![(kernel, time)])
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
    Operand::Tensor { dims: dims.to_vec(), dtype: Some(dtype), id: None }
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
