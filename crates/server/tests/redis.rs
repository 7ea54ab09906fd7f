//! Random programs of Redis commands, run on a real Redis and on this server: the replies are equal, byte
//! by byte.

mod support;

use support::{Client, Ours, Redis};

/// Number of programs, and of commands in each.
const PROGRAMS: u64 = 400;
const COMMANDS: u64 = 60;

/// A small pseudo-random generator, so that a seed gives the same program on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.roll(all.len() as u64) as usize]
    }

    fn key(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "key:1", "key:2", "über"])
    }

    fn value(&mut self) -> &'static str {
        self.pick(&[
            "",
            "1",
            "-7",
            "10",
            "01",
            " 1",
            "1.5",
            "3.0e3",
            "text",
            "with space",
            "9223372036854775807",
            "-9223372036854775808",
            "nan",
            "0.5",
            "\u{1F600}",
        ])
    }

    fn number(&mut self) -> &'static str {
        self.pick(&[
            "1",
            "-1",
            "5",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "x",
            "1.5",
            "",
        ])
    }

    /// Only numbers that binary fractions represent exactly, on separate keys: Redis adds long doubles,
    /// this server adds decimals.
    fn float(&mut self) -> &'static str {
        self.pick(&["0.5", "0.25", "-1.5", "3", "5.0e3", "1e2", "x", ""])
    }

    /// Times to live that do not end while the program runs, and some in the past.
    fn time(&mut self) -> &'static str {
        self.pick(&["100000", "500000", "-1", "0", "100000000", "x", "9223372036854775807"])
    }

    fn program_step(&mut self) -> Vec<String> {
        let mut words: Vec<String> = self.words().into_iter().map(str::to_owned).collect();
        // With equal times, the result would depend on the millisecond, so the time is made unique.
        if words.iter().any(|word| word == "GT" || word == "LT") && words[2].ends_with("000") {
            words[2] = (100_000 + self.roll(10_000_000)).to_string();
        }
        words
    }

    fn field(&mut self) -> &'static str {
        self.pick(&["f", "g", "h", "", "field one"])
    }

    /// Returns a command on hashes. It uses the same keys as the commands on strings.
    fn hash_words(&mut self) -> Vec<&'static str> {
        let key = self.key();
        let field = self.field();
        let other = self.field();
        match self.roll(24) {
            0..=4 => vec!["HSET", key, field, self.value()],
            5 => vec!["HSET", key, field, self.value(), other, self.value()],
            6 => vec!["HMSET", key, field, self.value(), other, self.value()],
            7 => vec![self.pick(&["HSET", "HMSET"]), key, field, self.value(), other],
            8 => vec!["HSETNX", key, field, self.value()],
            9 | 10 => vec!["HGET", key, field],
            11 => vec!["HMGET", key, field, other, field, "none"],
            12 => vec![self.pick(&["HGETALL", "HKEYS", "HVALS"]), key],
            13 => vec!["HDEL", key, field],
            14 => vec!["HDEL", key, field, other, field],
            15 => vec![self.pick(&["HEXISTS", "HSTRLEN"]), key, field],
            16 => vec!["HLEN", key],
            17 => vec!["HINCRBY", key, field, self.number()],
            18 => vec!["HINCRBY", key, field, self.pick(&["1", "-1", "9223372036854775807"])],
            19 => match self.roll(3) {
                0 => vec!["HSET", "f:3", field, self.float()],
                1 => vec!["HINCRBYFLOAT", "f:3", field, self.pick(&["inf", "-inf", "nan", "x"])],
                _ => vec!["HINCRBYFLOAT", "f:3", field, self.float()],
            },
            20 => vec!["HSCAN", key, self.pick(&["0", "x"])],
            21 => {
                let pattern = self.pick(&["*", "f*", "?", "x"]);
                vec!["HSCAN", key, "0", self.pick(&["MATCH", "COUNT", "FOO"]), pattern]
            }
            22 => vec!["HRANDFIELD", key, self.pick(&["100", "0", "x", "-9223372036854775808"])],
            _ => vec![
                self.pick(&["HSET", "HGET", "HMGET", "HDEL", "HSCAN", "HRANDFIELD", "HLEN"]),
                key,
                self.pick(&["f", "g"]),
                "100",
            ],
        }
    }

    fn words(&mut self) -> Vec<&'static str> {
        let key = self.key();
        let other = self.key();
        match self.roll(66) {
            44.. => self.hash_words(),
            0..=4 => vec!["SET", key, self.value()],
            5 => vec!["SET", key, self.value(), self.pick(&["NX", "XX", "GET", "KEEPTTL", "FOO"])],
            6 => vec!["SET", key, self.value(), self.pick(&["EX", "PX"]), self.time()],
            7 => vec!["SET", key, self.value(), "NX", "GET"],
            8 => vec!["SET", key, self.value(), "XX", self.pick(&["NX", "GET", "EX", "KEEPTTL"])],
            9..=12 => vec!["GET", key],
            13 => vec!["GETSET", key, self.value()],
            14 => vec!["GETDEL", key],
            15 => vec!["GETEX", key],
            16 => vec!["GETEX", key, self.pick(&["PERSIST", "FOO", "EX"])],
            17 => vec!["GETEX", key, "EX", self.time()],
            18 => vec!["SETNX", key, self.value()],
            19 => vec![self.pick(&["SETEX", "PSETEX"]), key, self.time(), self.value()],
            20 => vec!["MGET", key, other, "none"],
            21 => vec!["MSET", key, self.value(), other, self.value()],
            22 => vec!["MSETNX", key, self.value(), other, self.value()],
            23 => vec![self.pick(&["MSET", "MSETNX"]), key, self.value(), other],
            24 => vec!["INCR", key],
            25 => vec!["DECR", key],
            26 => vec![self.pick(&["INCRBY", "DECRBY"]), key, self.number()],
            27 => {
                let key = self.pick(&["f:1", "f:2"]);
                match self.roll(4) {
                    0 => vec!["SET", key, self.float()],
                    1 => vec!["GET", key],
                    _ => vec!["INCRBYFLOAT", key, self.float()],
                }
            }
            28 => vec!["APPEND", key, self.value()],
            29 => vec!["STRLEN", key],
            30 => vec![self.pick(&["DEL", "UNLINK"]), key, other],
            31 => vec![self.pick(&["EXISTS", "TOUCH"]), key, other, key],
            32 => vec!["TYPE", key],
            33 => vec![self.pick(&["EXPIRE", "PEXPIRE"]), key, self.time()],
            34 => {
                let condition = self.pick(&["NX", "XX", "GT", "LT", "FOO"]);
                vec![self.pick(&["EXPIRE", "PEXPIRE"]), key, self.time(), condition]
            }
            35 => vec!["EXPIRE", key, self.time(), "XX", self.pick(&["LT", "GT", "NX"])],
            36 => vec![
                self.pick(&["EXPIREAT", "PEXPIREAT"]),
                key,
                self.pick(&["99999999999", "1", "x", "-5"]),
            ],
            37 => vec!["PERSIST", key],
            38 => vec![self.pick(&["TTL", "PTTL"]), key],
            39 => vec![self.pick(&["EXPIRETIME", "PEXPIRETIME"]), key],
            40 => vec!["KEYS", self.pick(&["*", "key:*", "[ab]", "?", "x*"])],
            41 => vec!["DBSIZE"],
            42 => vec![self.pick(&["GET", "SET", "INCR", "FOO", "TTL", "MSET", "EXPIRE"])],
            43 => vec![self.pick(&["ECHO", "PING"]), self.value()],
        }
    }
}

/// Commands that return names or fields in any order.
const IN_ANY_ORDER: &[&str] = &["KEYS", "HGETALL", "HKEYS", "HVALS", "HSCAN", "HRANDFIELD"];

/// Returns whether two replies are equivalent: names may come in any order, and times may differ a little.
fn alike(words: &[String], ours: &str, theirs: &str) -> bool {
    let name = words[0].as_str();
    if IN_ANY_ORDER.contains(&name) {
        return sorted_lines(ours) == sorted_lines(theirs);
    }
    let allowed = match name {
        "TTL" | "EXPIRETIME" => 3,
        "PTTL" | "PEXPIRETIME" => 3000,
        _ => 0,
    };
    match (number(ours), number(theirs)) {
        (Some(a), Some(b)) if a > 0 && b > 0 => a.abs_diff(b) <= allowed,
        _ => ours == theirs,
    }
}

fn sorted_lines(reply: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = reply.split(r"\r\n").collect();
    lines.sort_unstable();
    lines
}

fn number(reply: &str) -> Option<i64> {
    reply.strip_prefix(':')?.strip_suffix(r"\r\n")?.parse().ok()
}

struct Pair {
    redis: Client,
    ours: Client,
}

impl Pair {
    fn both(&mut self, words: &[String], so_far: &[Vec<String>]) {
        let theirs = self.redis.call(words);
        let ours = self.ours.call(words);
        assert!(alike(words, &ours, &theirs), "{ours} {theirs}: {words:?} after {so_far:?}");
    }

    fn flush(&mut self) {
        let flush = ["FLUSHDB".to_owned()];
        self.both(&flush, &[]);
    }
}

#[test]
fn random_programs_are_answered_alike() {
    let redis = Redis::start();
    let ours = Ours::start();
    let mut pair = Pair { redis: redis.client(), ours: ours.client() };
    for seed in 1..=PROGRAMS {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        pair.flush();
        let mut so_far = Vec::new();
        for _ in 0..COMMANDS {
            let words = dice.program_step();
            pair.both(&words, &so_far);
            so_far.push(words);
        }
    }
}

#[test]
fn random_transactions_are_answered_alike() {
    // A sweep would change watched keys, even if it only removed expired ones.
    let redis = Redis::start();
    let ours = Ours::unswept();
    let mut one = Pair { redis: redis.client(), ours: ours.client() };
    let mut other = Pair { redis: redis.client(), ours: ours.client() };
    for seed in 1..=PROGRAMS / 2 {
        let mut dice = Dice(seed.wrapping_mul(0xd1b5_4a32_d192_ed03));
        one.flush();
        let mut so_far = Vec::new();
        for _ in 0..COMMANDS {
            let word = |word: &str| vec![word.to_owned()];
            let words = match dice.roll(12) {
                0 | 1 => word("MULTI"),
                2 | 3 => word("EXEC"),
                4 => word(dice.pick(&["DISCARD", "UNWATCH"])),
                5 => vec!["WATCH".to_owned(), dice.key().to_owned(), dice.key().to_owned()],
                _ => dice.program_step(),
            };
            // Replies in any order and times cannot be compared inside the reply of EXEC.
            let plain = !IN_ANY_ORDER.contains(&words[0].as_str())
                && words[0] != "DBSIZE"
                && !words[0].contains("TTL")
                && !words[0].contains("TIME");
            if plain {
                one.both(&words, &so_far);
                so_far.push(words);
            }
            if dice.roll(5) == 0 {
                let key = dice.key().to_owned();
                let value = dice.value().to_owned();
                let words = match dice.roll(3) {
                    0 => vec!["HSET".to_owned(), key, dice.field().to_owned(), value],
                    _ => vec!["SET".to_owned(), key, value],
                };
                other.both(&words, &so_far);
                so_far.push(words);
            }
        }
        let end = vec!["RESET".to_owned()];
        one.both(&end, &so_far);
    }
}

#[test]
fn pipelines_are_answered_in_order_and_see_their_own_writes() {
    let redis = Redis::start();
    let ours = Ours::start();
    let mut pair = Pair { redis: redis.client(), ours: ours.client() };
    for seed in 1..=60_u64 {
        let mut dice = Dice(seed.wrapping_mul(0xa24b_aed4_963e_e407));
        pair.flush();
        let steps: Vec<_> = (0..200).map(|_| dice.program_step()).collect();
        let bytes: Vec<u8> = steps.iter().flat_map(|words| support::encode(words)).collect();
        pair.redis.send_bytes(&bytes);
        pair.ours.send_bytes(&bytes);
        for (place, words) in steps.iter().enumerate() {
            let theirs = pair.redis.receive();
            let ours = pair.ours.receive();
            let before = &steps[..place];
            assert!(alike(words, &ours, &theirs), "{ours} {theirs}: {words:?} after {before:?}");
        }
    }
}

/// A hash so large that Redis returns it in pieces.
#[test]
fn a_scan_of_a_hash_gives_every_field_once() {
    let redis = Redis::start();
    let ours = Ours::start();
    let mut all = Vec::new();
    for client in [&mut redis.client(), &mut ours.client()] {
        for i in 0..600 {
            client.call(&["HSET", "h", &format!("field {i}"), "x"]);
        }
        let mut cursor = "0".to_owned();
        let mut fields = Vec::new();
        let mut pieces = 0;
        loop {
            let reply = client.call(&["HSCAN", "h", &cursor, "COUNT", "20", "MATCH", "field *"]);
            let mut parts: Vec<String> = reply.split(r"\r\n").map(str::to_owned).collect();
            cursor = parts[2].clone();
            fields.extend(parts.drain(4..).filter(|part| part.starts_with("field ")));
            pieces += 1;
            if cursor == "0" {
                break;
            }
        }
        assert!(pieces > 10, "{pieces}");
        fields.sort_unstable();
        fields.dedup();
        all.push(fields);
    }
    assert_eq!(all[0].len(), 600);
    assert_eq!(all[0], all[1]);
}

/// The same in RESP3, where hashes are maps.
#[test]
fn hashes_look_alike_in_resp3() {
    let redis = Redis::start();
    let ours = Ours::start();
    let mut pair = Pair { redis: redis.client(), ours: ours.client() };
    for client in [&mut pair.redis, &mut pair.ours] {
        client.line("HELLO 3");
    }
    let value: Vec<u8> = (0..=255).collect();
    let set: [&[u8]; 4] = [b"HSET", b"h", &value, &value];
    assert_eq!(pair.redis.call(&set), pair.ours.call(&set));
    let lines = [
        "HGETALL h",
        "HGETALL none",
        "HKEYS h",
        "HVALS h",
        "HGET h none",
        "HMGET h none none",
        "HSCAN h 0",
        "HRANDFIELD h",
        "HRANDFIELD h 5",
        "HRANDFIELD h -3",
        "HRANDFIELD h 5 WITHVALUES",
        "HRANDFIELD h -3 WITHVALUES",
        "HRANDFIELD none",
        "HRANDFIELD none 5 WITHVALUES",
        "HRANDFIELD h 5 VALUES",
        "HRANDFIELD h 9223372036854775807 WITHVALUES",
        "HINCRBYFLOAT h f 0.5",
        "HINCRBY h f 1",
        "SET h x KEEPTTL",
        "HGETALL h",
    ];
    for line in lines {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        pair.both(&words, &[]);
    }
}

#[test]
fn a_scan_gives_every_name_once() {
    let redis = Redis::start();
    let ours = Ours::start();
    let mut all = Vec::new();
    for client in [&mut redis.client(), &mut ours.client()] {
        for i in 0..257 {
            match i % 3 {
                0 => client.call(&["HSET", &format!("name {i}"), "f", "x"]),
                _ => client.call(&["SET", &format!("name {i}"), "x"]),
            };
        }
        let mut cursor = "0".to_owned();
        let mut names = Vec::new();
        loop {
            let reply = client.call(&["SCAN", &cursor, "COUNT", "20", "MATCH", "name *"]);
            let mut parts: Vec<String> = reply.split(r"\r\n").map(str::to_owned).collect();
            cursor = parts[2].clone();
            names.extend(parts.drain(4..).filter(|part| part.starts_with("name ")));
            if cursor == "0" {
                break;
            }
        }
        names.sort_unstable();
        names.dedup();
        all.push(names);
    }
    assert_eq!(all[0].len(), 257);
    assert_eq!(all[0], all[1]);
}
