//! The model: the expected answers of a machine, in the simplest possible code. It shares no code with the
//! machine and ignores performance.

mod run;

use crate::sample::{NAMES, Said, WATCHER};
use mainstay_model::{REQUEST_LIMIT, SessionRequest};
use mainstay_state_machine::{Codec, Input, Limits, Postcard};
use std::collections::BTreeMap;

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    Response { said: Said, is_error: bool },
    Aborted { code: &'static str, message_bytes: usize },
}

#[derive(Clone, Debug)]
pub struct Session {
    pub opened: u64,
    pub lease_ms: u64,
    pub expires: u64,
    pub capabilities: Vec<(String, String)>,
    pub mark: u64,
    pub kept: BTreeMap<u64, Kept>,
    pub last: u64,
    /// The send time and the content of each request.
    pub pending: BTreeMap<u64, (u64, i64)>,
}

/// The user's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    pub counts: BTreeMap<u8, i64>,
    pub visits: BTreeMap<String, u64>,
    pub gone: u8,
}

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub clock: u64,
    pub limits: Limits,
    pub sessions: BTreeMap<String, Session>,
    /// Name, time of removal, next request, last request to the client.
    pub formers: Vec<(String, u64, u64, u64)>,
    /// Names whose numbers were forgotten, so that they may be reused.
    pub forgotten: Vec<String>,
    pub data: Data,
    pub counters: BTreeMap<&'static str, u64>,
}

/// The expected answer as text, and the expected requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    pub answer: String,
    pub requests: Vec<(String, u64, i64)>,
}

type Letters = Vec<(String, i64)>;

fn bytes_of<T>(value: &T) -> usize
where
    Postcard: Codec<T>,
{
    Postcard::to_bytes(value).unwrap().len()
}

impl Kept {
    pub fn bytes(&self) -> usize {
        match self {
            Kept::Response { said, .. } => bytes_of(said),
            Kept::Aborted { message_bytes, .. } => *message_bytes,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Kept::Response { said, is_error } => format!("{said:?} error={is_error}"),
            Kept::Aborted { code, .. } => format!("aborted {code}"),
        }
    }
}

impl Session {
    pub fn next_request(&self) -> u64 {
        self.kept.keys().last().map_or(0, |id| id + 1).max(self.mark)
    }

    pub fn kept_bytes(&self) -> usize {
        self.kept.values().map(Kept::bytes).sum()
    }

    /// Evicts the oldest responses until the limits hold.
    fn make_room(&mut self, limits: &Limits) -> u64 {
        let before = self.kept.len();
        self.kept.retain(|id, _| *id >= self.mark);
        while self.kept.len() > limits.kept.count || self.kept_bytes() > limits.kept.bytes {
            let (oldest, _) = self.kept.pop_first().unwrap();
            self.mark = oldest + 1;
        }
        (before - self.kept.len()) as u64
    }
}

impl Oracle {
    pub fn new(limits: Limits) -> Oracle {
        Oracle { limits, ..Oracle::default() }
    }

    fn count(&mut self, counter: &'static str, by: u64) {
        if by > 0 {
            *self.counters.entry(counter).or_default() += by;
        }
    }

    /// `message_bytes` is the length of the machine's own abort message, whose text the model does not
    /// predict.
    pub fn apply(&mut self, now: u64, input: &Input, message_bytes: usize) -> Expected {
        let refused = |code: &str| Expected { answer: format!("refused {code}"), requests: vec![] };
        let done = |answer: String| Expected { answer, requests: vec![] };
        if let Input::Request { request: SessionRequest { request_id, lowest_pending, .. }, .. } =
            input
            && (*request_id == 0 || *request_id > REQUEST_LIMIT || lowest_pending > request_id)
        {
            return refused("InvalidArgument");
        }
        let before = self.clock;
        self.clock = self.clock.max(now);
        let now = self.clock;
        match input {
            Input::Open { session, lease_ms, capabilities } => {
                self.open(now, session.as_str(), lease_ms.unwrap_or(60_000), capabilities)
            }
            Input::Request { request, command } => {
                let who = request.session.as_str();
                let opened = self.sessions.get(who).map_or(0, |session| session.opened);
                if request.epoch != 0 && request.epoch != opened && self.is_live(now, who) {
                    self.count("strangers", 1);
                    return refused("SessionExpired");
                }
                let Some(session) = self.heard(now, who) else { return refused("SessionExpired") };
                if let Some(kept) = session.kept.get(&request.request_id) {
                    let answer = format!("{} repeat=true", kept.text());
                    self.count("repeated", 1);
                    return done(answer);
                }
                if request.request_id < session.mark {
                    self.count("too_late", 1);
                    return refused("ResponseEvicted");
                }
                self.count("executed", 1);
                let (kept, requests) = self.execute(now, Some(who), command, message_bytes);
                let answer = format!("{} repeat=false", kept.text());
                let limits = self.limits;
                let session = self.sessions.get_mut(who).unwrap();
                session.mark = session.mark.max(request.lowest_pending);
                session.kept.insert(request.request_id, kept);
                let evicted = session.make_room(&limits);
                self.count("evicted", evicted);
                Expected { answer, requests }
            }
            Input::Internal { command } => {
                self.count("internal", 1);
                let (kept, requests) = self.execute(now, None, command, message_bytes);
                Expected { answer: format!("{} repeat=false", kept.text()), requests }
            }
            Input::KeepAlive { session, lowest_pending } => {
                let Some(found) = self.heard(now, session.as_str()) else {
                    return refused("SessionExpired");
                };
                found.mark = found.mark.max(*lowest_pending);
                let before = found.kept.len();
                let mark = found.mark;
                found.kept.retain(|id, _| *id >= mark);
                let evicted = (before - found.kept.len()) as u64;
                self.count("evicted", evicted);
                done("done".to_owned())
            }
            Input::Acknowledge { session, upto } => {
                let Some(found) = self.heard(now, session.as_str()) else {
                    return refused("SessionExpired");
                };
                let before = found.pending.len();
                found.pending.retain(|id, _| id > upto);
                let count = (before - found.pending.len()) as u64;
                self.count("acknowledged", count);
                done(format!("acknowledged {count}"))
            }
            Input::Send { session, payload } => {
                let letter = vec![(session.to_string(), Postcard::decode(payload).unwrap())];
                if !self.has_room(now, &letter) {
                    return refused("MailboxFull");
                }
                let requests = self.deliver(now, letter);
                Expected {
                    answer: format!("sent {:?}", requests.first().map(|sent| sent.1)),
                    requests,
                }
            }
            Input::Close { session } | Input::Expire { session } => {
                let was_live = self.is_live(now, session.as_str());
                let closes = was_live && matches!(input, Input::Close { .. });
                let requests = self.end(now, session.as_str(), closes);
                Expected { answer: format!("ended {was_live}"), requests }
            }
            Input::ExpireDue { limit } => {
                let all = self.sessions.iter().filter(|(_, session)| session.expires <= now);
                let all: Vec<String> = all.map(|(name, _)| name.clone()).collect();
                let due: Vec<_> = all.iter().take(*limit).collect();
                let requests = due.iter().flat_map(|name| self.end(now, name, false)).collect();
                let answer = format!("expired {} more={}", due.len(), all.len() > due.len());
                Expected { answer, requests }
            }
            Input::Retry { sent_before, limit } => self.retry(now, *sent_before, *limit),
            Input::RenewLeases => {
                for session in self.sessions.values_mut().filter(|s| s.expires > before) {
                    session.expires = now + session.lease_ms * 1_000;
                }
                done("done".to_owned())
            }
            Input::SetLimits(limits) => {
                self.limits = *limits;
                let evicted = self.sessions.values_mut().map(|s| s.make_room(limits)).sum();
                self.count("evicted", evicted);
                self.forget(now);
                done("done".to_owned())
            }
            other => panic!("the model does not know {other:?}"),
        }
    }

    pub fn is_live(&self, now: u64, name: &str) -> bool {
        self.sessions.get(name).is_some_and(|session| now < session.expires)
    }

    fn heard(&mut self, now: u64, name: &str) -> Option<&mut Session> {
        if !self.is_live(now, name) {
            self.count("strangers", 1);
            return None;
        }
        let session = self.sessions.get_mut(name)?;
        session.expires = now + session.lease_ms * 1_000;
        Some(session)
    }

    fn retry(&mut self, now: u64, sent_before: u64, limit: usize) -> Expected {
        let mut due = Vec::new();
        for (name, session) in self.sessions.iter().filter(|(_, session)| now < session.expires) {
            for (id, (sent, says)) in
                session.pending.iter().filter(|(_, (sent, _))| *sent < sent_before)
            {
                due.push((*sent, name.clone(), *id, *says));
            }
        }
        due.sort();
        let more = due.len() > limit;
        due.truncate(limit);
        for (_, name, id, _) in &due {
            self.sessions.get_mut(name).unwrap().pending.get_mut(id).unwrap().0 = now;
        }
        self.count("retried", due.len() as u64);
        let requests = due.into_iter().map(|(_, name, id, says)| (name, id, says)).collect();
        Expected { answer: format!("retried more={more}"), requests }
    }

    fn open(
        &mut self,
        now: u64,
        name: &str,
        lease_ms: u64,
        about: &[(String, String)],
    ) -> Expected {
        if self.is_live(now, name) {
            let session = self.sessions.get_mut(name).unwrap();
            session.expires = now + session.lease_ms * 1_000;
            return Expected { answer: self.opened(name, false), requests: vec![] };
        }
        let mut requests = self.end(now, name, false);
        if self.sessions.len() >= self.limits.sessions {
            return Expected { answer: "refused TooManySessions".to_owned(), requests };
        }
        self.forget(now);
        let former = self.formers.iter().find(|former| former.0 == name);
        let (mark, last) = former.map_or((1, 0), |(_, _, next, last)| (*next, *last));
        let session = Session {
            opened: now,
            lease_ms,
            expires: now + lease_ms * 1_000,
            capabilities: about.to_vec(),
            mark,
            kept: BTreeMap::new(),
            last,
            pending: BTreeMap::new(),
        };
        let begin = about.iter().find(|(name, _)| name == "begin").map(|(_, how)| how.as_str());
        self.sessions.insert(name.to_owned(), session);
        let mut data = self.data.clone();
        let visits = data.visits.entry(name.to_owned()).or_default();
        *visits += 1;
        let greeting = (name.to_owned(), *visits as i64);
        let letters = if begin == Some("greet") { vec![greeting] } else { vec![] };
        if begin == Some("panic") || !self.has_room(now, &letters) {
            self.count("hooks_failed", 1);
            self.sessions.remove(name);
            let code = if begin == Some("panic") { "MachineFailed" } else { "MailboxFull" };
            return Expected { answer: format!("refused {code}"), requests };
        }
        self.data = data;
        requests.extend(self.deliver(now, letters));
        self.formers.retain(|former| former.0 != name);
        self.count("opened", 1);
        Expected { answer: self.opened(name, true), requests }
    }

    fn opened(&self, name: &str, created: bool) -> String {
        let next = self.sessions[name].next_request();
        format!("opened created={created} next={next}")
    }

    /// Runs the hook, then removes the session and all its data, and nothing else.
    fn end(&mut self, now: u64, name: &str, closes: bool) -> Vec<(String, u64, i64)> {
        let Some(session) = self.sessions.remove(name) else { return vec![] };
        self.count(if closes { "closed" } else { "expired" }, 1);
        // Skips the numbers that its client may have in flight.
        let beyond = session.next_request() + 1_000;
        self.formers.push((name.to_owned(), now, beyond, session.last));
        self.forget(now);
        let mut data = self.data.clone();
        data.gone = data.gone.wrapping_add(1);
        let gone = i64::from(data.gone);
        let letters = vec![(WATCHER.to_owned(), gone), (name.to_owned(), gone)];
        let fails = session.capabilities.contains(&("end".to_owned(), "panic".to_owned()));
        if fails || !self.has_room(now, &letters) {
            self.count("hooks_failed", 1);
            return vec![];
        }
        self.data = data;
        self.deliver(now, letters)
    }

    fn forget(&mut self, now: u64) {
        self.formers.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        while let Some((name, gone, ..)) = self.formers.first()
            && (gone + DAY_US <= now || self.formers.len() > self.limits.formers)
        {
            self.forgotten.push(name.clone());
            self.formers.remove(0);
        }
    }

    fn has_room(&self, now: u64, letters: &Letters) -> bool {
        NAMES.iter().filter(|name| self.is_live(now, name)).all(|name| {
            let waiting = self.sessions[*name].pending.values().map(|(_, says)| *says);
            let added = letters.iter().filter(|(to, _)| to == name).map(|(_, says)| *says);
            let is_written_to = letters.iter().any(|(to, _)| to == name);
            let all: Vec<i64> = waiting.chain(added).collect();
            let bytes: usize = all.iter().map(bytes_of).sum();
            !is_written_to || all.len() <= self.limits.mailbox && bytes <= self.limits.mailbox_bytes
        })
    }

    fn deliver(&mut self, now: u64, letters: Letters) -> Vec<(String, u64, i64)> {
        let mut sent = Vec::new();
        for (name, says) in letters {
            if !self.is_live(now, &name) {
                self.count("dropped", 1);
                continue;
            }
            let session = self.sessions.get_mut(&name).unwrap();
            session.last += 1;
            session.pending.insert(session.last, (now, says));
            sent.push((name, session.last, says));
            self.count("sent", 1);
        }
        sent
    }
}
