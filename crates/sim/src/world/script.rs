//! A script: what kind of world a seed gives.

use mainstay_conformance::random::Random;
use mainstay_sessions::Faults;
use std::time::Duration;

/// What kind of world it is. Everything in it comes from here.
#[derive(Clone, Debug)]
pub struct Script {
    /// Where all chance comes from.
    pub seed: u64,
    /// How many clients there are.
    pub clients: usize,
    /// How many tasks of each ask at once.
    pub tasks: usize,
    /// How much each client asks for.
    pub requests: u64,
    /// How many requests of a session may be under way.
    pub window: usize,
    /// How long a request is tried.
    pub deadline: Duration,
    /// How long a session lives without a word.
    pub lease: Duration,
    /// Clients fall silent for longer than that now and then, and do not say that they are there.
    pub silences: bool,
    /// How the ways to the server are.
    pub faults: Faults,
    /// Of 1,000 calls of the server, so many meet each kind of trouble.
    pub troubles: Troubles,
    /// Clients crash, one of so many tasks of asking; 0: never.
    pub crashes: u64,
    /// Not everything is synced before it is answered.
    pub loose: bool,
    /// A bug of the client, on purpose.
    #[cfg(feature = "planted")]
    pub planted: Option<mainstay_sessions::Planted>,
}

/// Of 1,000 calls of the server, so many meet this.
#[derive(Clone, Copy, Debug, Default)]
pub struct Troubles {
    /// Power fails, at one of the next calls of the disk or at once.
    pub cuts: u64,
    /// The disk is full for a while.
    pub full: u64,
    /// The next sync fails.
    pub syncs: u64,
}

impl Script {
    /// The world of a seed.
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

    /// Whether no session goes before its client has all its letters.
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
    let mut often = |most: u64| match random.chance(30) {
        true => 0.0,
        false => random.below(most + 1) as f64 / 100.0,
    };
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
        break_bell: often(20),
        ring_twice: often(30),
    }
}
