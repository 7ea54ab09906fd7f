//! Random programs: steps of clients and servers that are valid in every state.

use crate::sample::{Command, Machine, NAMES, What, name};
use mainstay_model::{KeptLimits, SessionRequest};
use mainstay_state_machine::{Input, Limits};
use proptest::collection::vec;
use proptest::prelude::*;

/// A step, with its delay after the previous one in microseconds.
#[derive(Clone, Debug)]
pub struct Step {
    pub after_us: u64,
    pub act: Act,
}

#[derive(Clone, Debug)]
pub enum Act {
    Open {
        who: usize,
        lease_ms: u64,
        about: Option<(&'static str, &'static str)>,
    },
    /// A new request. Some numbers are skipped, and some earlier requests are still pending.
    New {
        who: usize,
        skip: u64,
        pending: u64,
        what: What,
    },
    /// A retry of one of the last requests, unchanged.
    Again {
        who: usize,
        back: usize,
    },
    /// A request number that was skipped, is old, or was never used.
    Late {
        who: usize,
        back: u64,
        lowest: u64,
        what: What,
    },
    /// A command that cannot be decoded.
    Garbage {
        who: usize,
    },
    KeepAlive {
        who: usize,
        ahead: u64,
        back: u64,
    },
    Acknowledge {
        who: usize,
        ahead: u64,
        back: u64,
    },
    Internal {
        what: What,
    },
    Send {
        who: usize,
        says: i64,
    },
    Close {
        who: usize,
    },
    Expire {
        who: usize,
    },
    ExpireDue {
        limit: usize,
    },
    Retry {
        ago_us: u64,
        limit: usize,
    },
    RenewLeases,
    SetLimits(Limits),
    /// Invalid numbers.
    Nonsense {
        who: usize,
        lowest: u64,
    },
    /// The clock of the log's writer goes back.
    ClockBack {
        us: u64,
    },
    /// The machine is replaced by one restored from its snapshot.
    Restore,
}

/// The state of the clients.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    next: [u64; NAMES.len()],
    sent: [Vec<Input>; NAMES.len()],
}

impl Clients {
    /// A client continues with the number it receives when it opens its session, if that is higher.
    pub fn opened(&mut self, who: usize, next_request: u64) {
        self.next[who] = self.next[who].max(next_request);
    }

    /// Converts a step to a log entry; `None` if it has none.
    pub fn input(
        &mut self,
        act: &Act,
        now: u64,
        last_letter: impl Fn(usize) -> u64,
    ) -> Option<Input> {
        let session = |who: usize| name(NAMES[who]);
        Some(match act.clone() {
            Act::Open { who, lease_ms, about } => {
                let capabilities = about
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into_iter()
                    .collect();
                Input::Open { session: session(who), lease_ms: Some(lease_ms), capabilities }
            }
            Act::New { who, skip, pending, what } => {
                let id = self.next[who].max(1) + skip;
                self.next[who] = id + 1;
                self.request(who, id, id.saturating_sub(pending).max(1), what)
            }
            Act::Again { who, back } => self.sent[who].iter().rev().nth(back)?.clone(),
            Act::Late { who, back, lowest, what } => {
                let id = self.next[who].saturating_sub(back).max(1);
                self.request(who, id, lowest.min(id), what)
            }
            Act::Garbage { who } => {
                let id = self.next[who].max(1);
                self.next[who] = id + 1;
                let request = SessionRequest::new(session(who), id, 0);
                self.sent[who].push(Input::Request { request, command: vec![0xff; 3] });
                self.sent[who].last()?.clone()
            }
            Act::KeepAlive { who, ahead, back } => {
                let lowest_pending = (self.next[who] + ahead).saturating_sub(back);
                Input::KeepAlive { session: session(who), lowest_pending }
            }
            Act::Acknowledge { who, ahead, back } => {
                let upto = (last_letter(who) + ahead).saturating_sub(back);
                Input::Acknowledge { session: session(who), upto }
            }
            Act::Internal { what } => Machine::internal(&Command { id: 0, what }).unwrap(),
            Act::Send { who, says } => Machine::send(session(who), &says).unwrap(),
            Act::Close { who } => Input::Close { session: session(who) },
            Act::Expire { who } => Input::Expire { session: session(who) },
            Act::ExpireDue { limit } => Input::ExpireDue { limit },
            Act::Retry { ago_us, limit } => {
                Input::Retry { sent_before: now.saturating_sub(ago_us), limit }
            }
            Act::RenewLeases => Input::RenewLeases,
            Act::SetLimits(limits) => Input::SetLimits(limits),
            Act::Nonsense { who, lowest } => {
                let request = SessionRequest::new(session(who), lowest / 2, lowest);
                Input::Request { request, command: Vec::new() }
            }
            Act::ClockBack { .. } | Act::Restore => return None,
        })
    }

    fn request(&mut self, who: usize, id: u64, lowest: u64, what: What) -> Input {
        let request = SessionRequest::new(name(NAMES[who]), id, lowest);
        let input = Machine::request(request, &Command { id, what }).unwrap();
        self.sent[who].push(input.clone());
        input
    }
}

/// Limits small enough to be reached.
pub fn small_limits() -> impl Strategy<Value = Limits> {
    let kept =
        (1..6_usize, prop_oneof![1 => Just(0_usize), 1 => Just(5), 2 => Just(40), 4 => Just(200)]);
    (kept, 1..8_usize, 1..20_usize, 2..5_usize, 0..4_usize).prop_map(
        |((count, bytes), mailbox, mailbox_bytes, sessions, formers)| Limits {
            kept: KeptLimits { count, bytes },
            mailbox,
            mailbox_bytes,
            sessions,
            formers,
        },
    )
}

fn any_limits() -> impl Strategy<Value = Limits> {
    prop_oneof![1 => Just(Limits::default()), 1 => small_limits()]
}

fn what() -> impl Strategy<Value = What> {
    let key = 0..3_u8;
    let n = -5..50_i64;
    prop_oneof![
        4 => (key.clone(), n.clone()).prop_map(|(key, n)| What::Add { key, n }),
        1 => (key.clone(), n.clone()).prop_map(|(key, n)| What::Refuse { key, n }),
        1 => (key.clone(), n.clone()).prop_map(|(key, n)| What::Undo { key, n }),
        1 => (key.clone(), n.clone()).prop_map(|(key, n)| What::Fail { key, n }),
        2 => (key.clone(), n).prop_map(|(key, n)| What::Panic { key, n }),
        2 => (key, prop_oneof![Just(3_usize), Just(30), Just(250)])
            .prop_map(|(key, bytes)| What::Big { key, bytes }),
        3 => (0..NAMES.len() as u8, 0..4_u8).prop_map(|(to, times)| What::Tell { to, times }),
        1 => Just(What::Who),
    ]
}

fn about() -> impl Strategy<Value = Option<(&'static str, &'static str)>> {
    prop_oneof![
        4 => Just(None),
        2 => Just(Some(("begin", "greet"))),
        1 => Just(Some(("begin", "panic"))),
        1 => Just(Some(("end", "panic"))),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let who = 0..NAMES.len();
    let lease_ms = prop_oneof![2 => 1..6_u64, 3 => Just(50), 5 => Just(60_000)];
    prop_oneof![
        10 => (who.clone(), lease_ms, about())
            .prop_map(|(who, lease_ms, about)| Act::Open { who, lease_ms, about }),
        16 => (who.clone(), prop_oneof![3 => Just(0_u64), 1 => 1..3_u64], 0..6_u64, what())
            .prop_map(|(who, skip, pending, what)| Act::New { who, skip, pending, what }),
        12 => (who.clone(), 0..8_usize).prop_map(|(who, back)| Act::Again { who, back }),
        4 => (who.clone(), 1..8_u64, 0..8_u64, what())
            .prop_map(|(who, back, lowest, what)| Act::Late { who, back, lowest, what }),
        1 => who.clone().prop_map(|who| Act::Garbage { who }),
        4 => (who.clone(), 0..2_u64, 0..6_u64)
            .prop_map(|(who, ahead, back)| Act::KeepAlive { who, ahead, back }),
        5 => (who.clone(), 0..3_u64, 0..4_u64)
            .prop_map(|(who, ahead, back)| Act::Acknowledge { who, ahead, back }),
        2 => what().prop_map(|what| Act::Internal { what }),
        4 => (who.clone(), -3..300_i64).prop_map(|(who, says)| Act::Send { who, says }),
        1 => who.clone().prop_map(|who| Act::Close { who }),
        1 => who.clone().prop_map(|who| Act::Expire { who }),
        2 => (1..4_usize).prop_map(|limit| Act::ExpireDue { limit }),
        4 => (prop_oneof![Just(0_u64), Just(1), Just(500), Just(1_000)], 1..5_usize)
            .prop_map(|(ago_us, limit)| Act::Retry { ago_us, limit }),
        1 => Just(Act::RenewLeases),
        1 => any_limits().prop_map(Act::SetLimits),
        1 => (who, 0..4_u64).prop_map(|(who, lowest)| Act::Nonsense { who, lowest }),
        1 => (1..2_000_u64).prop_map(|us| Act::ClockBack { us }),
        3 => Just(Act::Restore),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let after_us = prop_oneof![
        80 => Just(0_u64), 60 => Just(1), 25 => Just(500), 15 => Just(1_000), 4 => Just(1_999),
        4 => Just(5_000), 3 => 1..60_000_u64,
        // Two of these are exactly a day, after which numbers are forgotten.
        1 => Just(12 * 3_600_000_000),
    ];
    (after_us, act()).prop_map(|(after_us, act)| Step { after_us, act })
}

/// Initial limits, and steps. Usually all clients open their sessions first.
pub fn program(steps: usize) -> impl Strategy<Value = (Limits, Vec<Step>)> {
    let opened = prop_oneof![1 => Just(0), 4 => Just(NAMES.len())];
    (any_limits(), opened, vec(step(), 1..steps)).prop_map(|(limits, opened, steps)| {
        let open = |who| Act::Open { who, lease_ms: 60_000, about: None };
        let first = (0..opened).map(|who| Step { after_us: 0, act: open(who) });
        (limits, first.chain(steps).collect())
    })
}
