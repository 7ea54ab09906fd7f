//! A replicated bank over an unreliable network: three replicas, and clients ("tills") whose messages are
//! lost, duplicated and delayed. The total balance never changes.
//!
//! ```text
//!   till --- request ---> network: loses, duplicates and delays some --------> log ---> replica 1, 2, 3
//!    ^                                                                          |
//!    +------------------- response: some of them are lost <---------------------+
//! ```
//!
//! ```text
//!   cargo run -p mainstay-state-machine --example bank
//! ```
//!
//! A till retries a request until it receives the response. The session machine executes each transfer
//! exactly once and sends each till a notice of large payments. All replicas have equal state, including one
//! that was restored from a snapshot.

use mainstay_model::{Code, Error, Name, Result, SessionRequest};
use mainstay_state_machine::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const TILLS: u64 = 6;
const TRANSFERS: u64 = 200;
const ACCOUNTS: u64 = 20;
const BEGIN_CENTS: u64 = 1_000;
const LARGE_CENTS: u64 = 180;

/// Account balances in cents.
const BALANCES: Table<u64, u64> = Table::new("balances");

struct Bank;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    Endow { account: u64, cents: u64 },
    Transfer { from: u64, to: u64, cents: u64 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Receipt {
    Done { left: u64 },
    TooLittle { left: u64 },
}

impl UserStateMachine for Bank {
    const NAME: &'static str = "bank";
    const VERSION: u32 = 1;
    type Command = Order;
    type Response = Receipt;
    /// The slip that a till prints after a large payment.
    type Request = String;

    fn apply(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
        order: Order,
    ) -> Result<Outcome<Receipt, String>> {
        match order {
            Order::Endow { account, cents } => {
                BALANCES.put(state, &account, &cents)?;
                Ok(Outcome::new(Receipt::Done { left: cents }))
            }
            Order::Transfer { from, to, cents } => transfer(state, context, from, to, cents),
        }
    }
}

fn transfer(
    state: &mut StateView<'_>,
    context: &Context<'_>,
    from: u64,
    to: u64,
    cents: u64,
) -> Result<Outcome<Receipt, String>> {
    let left = BALANCES.get(state, &from)?.unwrap_or(0);
    let Some(left_after) = left.checked_sub(cents) else {
        return Ok(Outcome::error(Receipt::TooLittle { left }));
    };
    BALANCES.put(state, &from, &left_after)?;
    let had = BALANCES.get(state, &to)?.unwrap_or(0);
    BALANCES.put(state, &to, &(had + cents))?;
    let outcome = Outcome::new(Receipt::Done { left: left_after });
    Ok(match context.caller() {
        Some(till) if cents >= LARGE_CENTS => {
            outcome.send(till.name(), format!("{cents} cents from {from} to {to}"))
        }
        _ => outcome,
    })
}

/// A seeded pseudo-random generator: every run rolls the same numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A till has one transfer outstanding at a time and retries it until it has the response.
struct Till {
    name: Name,
    next: u64,
    waiting: Option<Order>,
    sent: u64,
    slips: u64,
    done: u64,
    refused: u64,
}

impl Till {
    fn new(number: u64) -> Result<Till> {
        let name = Name::new(&format!("till-{number}"))?;
        Ok(Till { name, next: 1, waiting: None, sent: 0, slips: 0, done: 0, refused: 0 })
    }

    fn is_done(&self) -> bool {
        self.next > TRANSFERS && self.waiting.is_none()
    }

    /// Returns the outstanding request, or a new one.
    fn request(&mut self, dice: &mut Dice) -> Result<Input> {
        let order = self.waiting.get_or_insert_with(|| {
            let from = dice.roll(ACCOUNTS);
            let to = dice.roll(ACCOUNTS);
            Order::Transfer { from, to, cents: dice.roll(200) }
        });
        self.sent += 1;
        // All requests below this number are answered, so the machine may drop their responses.
        let request = SessionRequest::new(self.name.clone(), self.next, self.next);
        SessionMachine::<Bank>::request(request, order)
    }

    fn answered(&mut self, response: &Response) -> Result<()> {
        match response.reply.decode::<Receipt, Postcard>()? {
            Receipt::Done { .. } => self.done += 1,
            Receipt::TooLittle { .. } => self.refused += 1,
        }
        self.waiting = None;
        self.next += 1;
        Ok(())
    }
}

/// Counts of the faults that the network injected.
#[derive(Default)]
struct Line {
    lost: u64,
    doubled: u64,
    late: u64,
    answers_lost: u64,
    /// Copies that are delivered after requests that were sent later.
    straying: Vec<Input>,
}

impl Line {
    /// Returns the copies of a request that arrive: none, one or two, and possibly an older request.
    fn carry(&mut self, input: Input, dice: &mut Dice) -> Vec<Input> {
        let mut arriving = Vec::new();
        if dice.roll(4) == 0 {
            self.lost += 1;
        } else {
            arriving.push(input.clone());
        }
        match dice.roll(6) {
            0 => {
                self.doubled += 1;
                arriving.push(input);
            }
            1 => self.straying.push(input),
            _ if dice.roll(5) == 0 && !self.straying.is_empty() => {
                self.late += 1;
                let place = dice.roll(self.straying.len() as u64) as usize;
                arriving.push(self.straying.swap_remove(place));
            }
            _ => {}
        }
        arriving
    }
}

/// Three replicas that apply the same log.
struct Cluster {
    replicas: Vec<SessionMachine<Bank>>,
    now: u64,
    entries: u64,
}

impl Cluster {
    fn new() -> Cluster {
        let replicas = (0..3).map(|_| SessionMachine::new(Bank)).collect();
        Cluster { replicas, now: 1_000_000, entries: 0 }
    }

    /// Appends an entry to the log. Fails if the replicas return different outputs.
    fn apply(&mut self, input: &Input) -> Result<Output> {
        self.now += 1_000;
        self.entries += 1;
        let mut outputs: Vec<Output> =
            self.replicas.iter_mut().map(|replica| replica.apply(self.now, input)).collect();
        outputs.dedup();
        match (outputs.pop(), outputs.is_empty()) {
            (Some(output), true) => Ok(output),
            _ => Err(Error::new(Code::CorruptData, "the replicas disagree")),
        }
    }

    /// The third replica loses its state and restores a snapshot of the first.
    fn restore_third(&mut self) -> Result<SnapshotWritten> {
        let mut bytes = Vec::new();
        let written = self.replicas[0].snapshot_to(&mut bytes)?;
        self.replicas[2] = SessionMachine::restore(Bank, &bytes[..])?;
        Ok(written)
    }

    fn total_cents(&self) -> Result<u64> {
        let state = self.replicas[2].state();
        BALANCES.iter(&state).map(|row| row.map(|(_, cents)| cents)).sum()
    }
}

fn main() -> Result<()> {
    let mut cluster = Cluster::new();
    let mut line = Line::default();
    let mut dice = Dice(7);
    let mut tills = (1..=TILLS).map(Till::new).collect::<Result<Vec<_>>>()?;
    for account in 0..ACCOUNTS {
        let endow = Order::Endow { account, cents: BEGIN_CENTS };
        cluster.apply(&SessionMachine::<Bank>::internal(&endow)?)?;
    }
    for till in &tills {
        cluster.apply(&Input::open(till.name.clone()))?.answer?;
    }
    println!(
        "{TILLS} tills, {TRANSFERS} transfers each, between {ACCOUNTS} accounts of {BEGIN_CENTS} cents, over a bad line.\n"
    );

    let mut restored = false;
    while !tills.iter().all(Till::is_done) {
        for place in 0..tills.len() {
            if !tills[place].is_done() {
                work(place, &mut tills, &mut cluster, &mut line, &mut dice)?;
            }
        }
        if !restored && tills.iter().all(|till| till.next > TRANSFERS / 2) {
            restored = true;
            let SnapshotWritten { bytes, .. } = cluster.restore_third()?;
            println!(
                "Half way, replica 3 burns down; a snapshot of {bytes} bytes is all that it goes on from.\n"
            );
        }
    }
    tell(&tills, &cluster, &line)
}

/// Sends a till's request through the network and handles the responses.
fn work(
    place: usize,
    tills: &mut [Till],
    cluster: &mut Cluster,
    line: &mut Line,
    dice: &mut Dice,
) -> Result<()> {
    let sent = tills[place].request(dice)?;
    for input in line.carry(sent.clone(), dice) {
        let output = cluster.apply(&input)?;
        take_slips(&output, tills, cluster)?;
        let till = &mut tills[place];
        match (&output.answer, input == sent && till.waiting.is_some()) {
            (Ok(Answer::Response(response)), true) if dice.roll(4) > 0 => {
                till.answered(response)?
            }
            (Ok(_), true) => line.answers_lost += 1,
            // An old copy: the machine repeats its response or answers that it is too late. The till no
            // longer waits for it.
            _ => {}
        }
    }
    Ok(())
}

/// Tills print the slips that they receive, then acknowledge them.
fn take_slips(output: &Output, tills: &mut [Till], cluster: &mut Cluster) -> Result<()> {
    let mut last: BTreeMap<&Name, u64> = BTreeMap::new();
    for request in &output.requests {
        last.insert(&request.session, request.id);
        for till in tills.iter_mut().filter(|till| till.name == request.session) {
            till.slips += 1;
        }
    }
    for (session, upto) in last {
        cluster.apply(&Input::Acknowledge { session: session.clone(), upto })?.answer?;
    }
    Ok(())
}

fn tell(tills: &[Till], cluster: &Cluster, line: &Line) -> Result<()> {
    for Till { name, sent, done, refused, slips, .. } in tills {
        println!(
            "  {name}: {done} done, {refused} refused for want of money, {slips} slips, sent {sent} times"
        );
    }
    let Line { lost, doubled, late, answers_lost, .. } = line;
    println!(
        "\nThe line lost {lost} requests and {answers_lost} answers, doubled {doubled}, and brought {late} late."
    );
    let counters = cluster.replicas[0].counters();
    println!(
        "The log has {} entries: {} requests were executed, {} were repeats, {} came too late.",
        cluster.entries, counters.executed, counters.repeated, counters.too_late
    );
    assert_eq!(counters.executed, TILLS * TRANSFERS, "each once");
    let total = cluster.total_cents()?;
    let expected = ACCOUNTS * BEGIN_CENTS;
    assert_eq!(total, expected, "not a cent too much");
    println!("Total: {total} cents, as at the beginning.");
    let hashes: Vec<_> = cluster.replicas.iter().map(SessionMachine::hash).collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "the replicas agree");
    let short: String = hashes[0][..8].iter().map(|byte| format!("{byte:02x}")).collect();
    println!("All three replicas agree: {short}…");
    Ok(())
}
