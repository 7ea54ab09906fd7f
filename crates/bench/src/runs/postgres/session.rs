//! One blocking connection: fills the table, reads pages of events, measures sizes.

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

/// Number of events per statement.
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

    /// Recreates a form's table, fills it, and updates the planner statistics.
    pub fn fill(&mut self, form: Form, events: impl Iterator<Item = Told>) -> Outcome<()> {
        self.run(&form.schema())?;
        let statement = self.lane.runtime.block_on(self.client.prepare(&insert(form)))?;
        let mut batch = Columns::default();
        let mut seqs = HashMap::new();
        for told in events {
            batch.add(told, &mut seqs)?;
            if batch.runs.len() == BATCH {
                self.insert(&statement, &std::mem::take(&mut batch))?;
            }
        }
        self.insert(&statement, &batch)?;
        // Separate statements, because neither may run in a transaction.
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

    /// Reads a page of a run, including every field.
    pub fn page(&mut self, form: Form, run: &str, after: u64, limit: usize) -> Outcome<Vec<Kept>> {
        let statement = match self.fetch.get(form.table()) {
            Some(statement) => statement.clone(),
            None => {
                let made = self.lane.runtime.block_on(self.client.prepare(&form.fetch()))?;
                self.fetch.insert(form.table(), made.clone());
                made
            }
        };
        let after = i64::try_from(after)?;
        let limit = i64::try_from(limit)?;
        let values: [&(dyn ToSql + Sync); 3] = [&run, &after, &limit];
        self.lane
            .runtime
            .block_on(self.client.query(&statement, &values))?
            .iter()
            .map(Kept::of)
            .collect()
    }

    /// Size in bytes of a form's table with its indexes.
    pub fn bytes(&self, form: Form) -> Outcome<u64> {
        let query = format!("select pg_total_relation_size('{}')", form.table());
        let row = self.lane.runtime.block_on(self.client.query_one(query.as_str(), &[]))?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
    }
}

/// Events as columns, the input of one statement.
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

/// A bigserial assigns its own sequence numbers.
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

/// An event as a program reads it from the table.
#[expect(
    dead_code,
    reason = "every field is read from the row, as ours are, and then the events are counted"
)]
pub struct Kept {
    /// Name of the run.
    pub run: String,
    /// Sequence number.
    pub seq: u64,
    /// Unique id.
    pub id: Uuid,
    /// Type of the event.
    pub event_type: String,
    /// The step, if any.
    pub step: Option<String>,
    /// Payload as JSON.
    pub data: String,
    /// Idempotency key.
    pub key: String,
    /// Emission time.
    pub emitted: SystemTime,
    /// Storage time.
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
