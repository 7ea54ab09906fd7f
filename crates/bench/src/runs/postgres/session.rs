//! One connection that is waited for: filling the table, pages of events, sizes.

use super::lane::Lane;
use super::process::Postgres;
use super::schema::Form;
use super::types::{Jsonb, Uuid};
use crate::context::Outcome;
use crate::runs::events::Told;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

/// Events written by one statement.
const BATCH: usize = 1_000;

/// One connection.
pub struct Session {
    lane: Lane,
    client: Arc<Client>,
    fetch: HashMap<&'static str, Statement>,
}

impl Session {
    /// Connects.
    pub fn open(postgres: &Postgres) -> Outcome<Session> {
        let lane = Lane::connect(&postgres.config(), 1)?;
        let client = lane.clients.first().map(Arc::clone).ok_or("no connection was made")?;
        Ok(Session { lane, client, fetch: HashMap::new() })
    }

    /// Makes a form's table anew, fills it, and lets the planner look at it.
    pub fn fill(&mut self, form: Form, events: impl Iterator<Item = Told>) -> Outcome<()> {
        self.run(&form.schema())?;
        let statement = self.lane.runtime.block_on(self.client.prepare(&insert(form)))?;
        let (mut batch, mut seqs) = (Columns::default(), HashMap::new());
        for told in events {
            batch.add(told, &mut seqs)?;
            if batch.runs.len() == BATCH {
                self.insert(&statement, &std::mem::take(&mut batch))?;
            }
        }
        self.insert(&statement, &batch)?;
        // One at a time: neither may be in a transaction.
        self.run(&format!("vacuum analyze {}", form.table()))?;
        self.run("checkpoint")
    }

    fn insert(&self, statement: &Statement, batch: &Columns) -> Outcome<()> {
        let Columns { runs, seqs, types, steps, data, keys, emitted } = batch;
        let columns: [&(dyn ToSql + Sync); 7] = [runs, seqs, types, steps, data, keys, emitted];
        self.lane.runtime.block_on(self.client.execute(statement, &columns))?;
        Ok(())
    }

    fn run(&self, statement: &str) -> Outcome<()> {
        Ok(self.lane.runtime.block_on(self.client.batch_execute(statement))?)
    }

    /// A page of a run, every field of it read.
    pub fn page(&mut self, form: Form, run: &str, after: u64, limit: usize) -> Outcome<Vec<Kept>> {
        let statement = match self.fetch.get(form.table()) {
            Some(statement) => statement.clone(),
            None => {
                let made = self.lane.runtime.block_on(self.client.prepare(&form.fetch()))?;
                self.fetch.insert(form.table(), made.clone());
                made
            }
        };
        let (after, limit) = (i64::try_from(after)?, i64::try_from(limit)?);
        let values: [&(dyn ToSql + Sync); 3] = [&run, &after, &limit];
        self.lane
            .runtime
            .block_on(self.client.query(&statement, &values))?
            .iter()
            .map(Kept::of)
            .collect()
    }

    /// The bytes of a form's table with its indexes.
    pub fn bytes(&self, form: Form) -> Outcome<u64> {
        let query = format!("select pg_total_relation_size('{}')", form.table());
        let row = self.lane.runtime.block_on(self.client.query_one(query.as_str(), &[]))?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
    }
}

/// Events by columns, as one statement takes them.
#[derive(Default)]
struct Columns {
    runs: Vec<String>,
    seqs: Vec<i64>,
    types: Vec<&'static str>,
    steps: Vec<Option<String>>,
    data: Vec<String>,
    keys: Vec<String>,
    emitted: Vec<SystemTime>,
}

impl Columns {
    fn add(&mut self, told: Told, seqs: &mut HashMap<String, i64>) -> Outcome<()> {
        let seq = seqs.entry(told.run.clone()).or_default();
        *seq += 1;
        self.seqs.push(*seq);
        self.keys.push(told.key()?);
        self.emitted.push(told.emitted());
        self.runs.push(told.run);
        self.types.push(told.event_type);
        self.steps.push(told.step);
        self.data.push(told.data);
        Ok(())
    }
}

/// The sequences of a bigserial are its own.
fn insert(form: Form) -> String {
    let (column, seq) = match form {
        Form::Lock => ("run_seq,", "seq,"),
        Form::Serial => ("", ""),
    };
    format!(
        "insert into {} (run_id, {column} event_type, step_id, data, idempotency_key, emitted_at)
           select run, {seq} kind, step, what::jsonb, key, emitted
           from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
             as given(run, seq, kind, step, what, key, emitted)",
        form.table()
    )
}

/// An event as a program has it that reads the table.
#[expect(
    dead_code,
    reason = "every field is read from the row, as ours are, and then the events are counted"
)]
pub struct Kept {
    /// The run.
    pub run: String,
    /// Its place.
    pub seq: u64,
    /// Its own name.
    pub id: Uuid,
    /// What happened.
    pub event_type: String,
    /// To which step.
    pub step: Option<String>,
    /// What belongs to it, as JSON.
    pub data: String,
    /// Its key.
    pub key: String,
    /// When it was emitted.
    pub emitted: SystemTime,
    /// When it was stored.
    pub persisted: SystemTime,
}

impl Kept {
    fn of(row: &Row) -> Outcome<Kept> {
        Ok(Kept {
            run: row.try_get(0)?,
            seq: u64::try_from(row.try_get::<_, i64>(1)?)?,
            id: row.try_get(2)?,
            event_type: row.try_get(3)?,
            step: row.try_get(4)?,
            data: row.try_get::<_, Jsonb<'_>>(5)?.0.to_owned(),
            key: row.try_get(6)?,
            emitted: row.try_get(7)?,
            persisted: row.try_get(8)?,
        })
    }
}
