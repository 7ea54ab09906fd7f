//! The parameters of a world, derived from its seed.

use mainstay_conformance::random::Random;
use mainstay_sessions::Faults;
use std::time::Duration;

/// The parameters of a world; every choice derives from them.
#[derive(Clone, Debug)]
pub struct Script {
    /// The seed of all randomness.
    pub seed: u64,
    /// The number of clients.
    pub clients: usize,
    /// The number of concurrent tasks per client.
    pub tasks: usize,
    /// The number of requests per client.
    pub requests: u64,
    /// The most requests of a session in flight.
    pub window: usize,
    /// The deadline of a request.
    pub deadline: Duration,
    /// The lease of a session.
    pub lease: Duration,
    /// Whether clients fall silent for longer than the lease now and then, and send no keep-alives.
    pub silences: bool,
    /// The faults of the network.
    pub faults: Faults,
    /// The rates of server troubles.
    pub troubles: Troubles,
    /// The rate of client crashes per request task; 0 means never.
    pub crashes: u64,
    /// Whether some operations are answered before they are synced.
    pub loose: bool,
    /// The fault that is injected into the clients.
    #[cfg(feature = "planted")]
    pub planted: Option<mainstay_sessions::ClientFault>,
}

/// The number of server calls, of 1,000, at which each trouble begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Troubles {
    /// Power failures, at once or at one of the next disk calls.
    pub cuts: u64,
    /// The disk is full for a while.
    pub full: u64,
    /// The next sync fails.
    pub syncs: u64,
}

impl Script {
    /// Returns the parameters of a seed.
    pub fn of(seed: u64) -> Script {
        let mut random = Random::of(&[seed, 0x53_43_52]);
        let silences = random.chance(40);
        let lease = if silences { 200 + random.below(600) } else { 60_000 };
        Script {
            seed,
            clients: 2 + random.below(3) as usize,
            tasks: 1 + random.below(4) as usize,
            requests: 8 + random.below(40),
            window: 1 + random.below(5) as usize,
            deadline: Duration::from_millis([300, 3_000, 60_000][random.below(3) as usize]),
            lease: Duration::from_millis(lease),
            silences,
            faults: faults(&mut random),
            troubles: troubles(&mut random),
            crashes: [0, 5, 10][random.below(3) as usize],
            loose: random.chance(40),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// Returns whether every session lives until its client has handled all messages.
    pub fn is_patient(&self) -> bool {
        !self.silences
    }
}

fn troubles(random: &mut Random) -> Troubles {
    let mut often = |most: u64| if random.chance(25) { 0 } else { random.below(most + 1) };
    Troubles { cuts: often(25), full: often(10), syncs: often(10) }
}

fn faults(random: &mut Random) -> Faults {
    let seed = random.next();
    let mut often =
        |most: u64| if random.chance(30) { 0.0 } else { random.below(most + 1) as f64 / 100.0 };
    Faults {
        seed,
        lose_request: often(30),
        lose_answer: often(30),
        silence: often(10),
        refuse: often(10),
        repeat: often(20),
        repeat_late: often(30),
        hold: often(20),
        delay: 0.2,
        break_waker: often(20),
        wake_twice: often(30),
    }
}
