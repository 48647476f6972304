//! Messages of collectives that are packed into fewer bytes: what packing and unpacking them takes follows what is carried.

use crate::cost::operators::movement_work;
use crate::cost::{CollectiveKind, Family, Shape, Work};
use crate::units::Bytes;

use super::{AddedId, Draft, Node, Source};

/// Bytes that one rank puts into a collective and gets out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it puts in.
    pub sent: u64,
    /// What it gets.
    pub received: u64,
}

impl Message {
    /// `None` of what is not packed.
    pub fn of(work: &Work) -> Option<Self> {
        let Shape::Collective { kind, ranks } = work.shape else { return None };
        let (sent, ranks) = (work.read.0, u64::from(ranks.max(1)));
        let received = match kind {
            CollectiveKind::AllReduce | CollectiveKind::AllToAll => sent,
            CollectiveKind::AllGather => sent.saturating_mul(ranks),
            CollectiveKind::ReduceScatter => sent / ranks,
            _ => return None,
        };
        Some(Self { sent, received })
    }

    fn at(self, end: End) -> u64 {
        match end {
            End::Sent => self.sent,
            End::Received => self.received,
        }
    }
}

/// Which end of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where its message is packed.
    Sent,
    /// Where what came is unpacked.
    Received,
}

/// A message that is packed or unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The collective.
    pub of: Node,
    /// Which end of it.
    pub end: End,
    /// Bytes that it carried at that end when the two figures below held.
    pub carried: u64,
    /// What is read.
    pub read: Bytes,
    /// What is written.
    pub written: Bytes,
}

impl Packed {
    /// What has to be done for `message`, which the collective carries now.
    pub(super) fn work(&self, message: Message) -> Work {
        let growth = message.at(self.end) as f64 / self.carried.max(1) as f64;
        let bytes = |bytes: Bytes| ((bytes.0 as f64 * growth).round() as u64).max(1);
        movement_work(Family::Elementwise, bytes(self.read), bytes(self.written))
    }
}

impl Draft<'_> {
    /// After messages were packed: what collectives carry now belongs to the packing as it is now.
    pub fn take_packed_as_carried(&mut self) {
        for at in 0..self.structure.added.len() {
            let Source::Packs(packed) = self.structure.added[at].source else { continue };
            let own = self.work_of(Node::Added(AddedId(at as u32)));
            let Some((message, own)) = self.work_of(packed.of).and_then(Message::of).zip(own) else { continue };
            let (carried, read, written) = (message.at(packed.end), own.read, own.written);
            self.structure.added[at].source = Source::Packs(Packed { carried, read, written, ..packed });
        }
    }

    /// Makes packing and unpacking follow their collectives, after those changed.
    pub fn follow_packed(&mut self) {
        super::plan::follow(self, |source| matches!(source, Source::Packs(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Precision;
    use crate::graph::NodeId;
    use crate::units::Flop;

    fn collective(kind: CollectiveKind, ranks: u32, read: u64) -> Work {
        let shape = Shape::Collective { kind, ranks };
        let (read, written) = (Bytes(read), Bytes(read));
        Work { family: Family::Collective, flop: Flop(0.0), read, written, precision: Precision::Fp32, shape }
    }

    /// The gathered whole stays what it is, however many ranks share it; each packs its part.
    #[test]
    fn each_end_of_a_collective_is_followed_by_what_it_carries() {
        let at = |end, carried| Packed {
            of: Node::Traced(NodeId::new(0)),
            end,
            carried,
            read: Bytes(carried),
            written: Bytes(carried / 4),
        };
        let work = |packed: Packed, kind, ranks, read| {
            let work = packed.work(Message::of(&collective(kind, ranks, read)).unwrap());
            (work.read.0, work.written.0)
        };
        assert_eq!(work(at(End::Received, 1024), CollectiveKind::AllGather, 16, 64), (1024, 256));
        assert_eq!(work(at(End::Sent, 128), CollectiveKind::AllGather, 16, 64), (64, 16));
        assert_eq!(work(at(End::Received, 128), CollectiveKind::ReduceScatter, 16, 1024), (64, 16));
        assert_eq!(work(at(End::Sent, 1024), CollectiveKind::ReduceScatter, 16, 2048), (2048, 512));
        assert_eq!(Message::of(&collective(CollectiveKind::Broadcast, 8, 16)), None);
    }
}
