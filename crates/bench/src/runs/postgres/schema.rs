//! The events table and the append, in the two usual designs.
//!
//! ```text
//!   lock       advisory lock of the run, highest sequence + 1, insert or find     no gaps, in order, one at a time per run
//!   bigserial  insert or find                                                     gaps; a reader may see 5 before 4
//! ```

/// The way in which the sequence number is assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One above the highest of the run, under an advisory lock.
    Lock,
    /// From a sequence of the whole table.
    Serial,
}

impl Form {
    /// Both forms.
    pub const ALL: [Form; 2] = [Form::Lock, Form::Serial];

    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Form::Lock => "advisory lock",
            Form::Serial => "bigserial",
        }
    }

    /// Name of its table.
    pub fn table(self) -> &'static str {
        match self {
            Form::Lock => "events_lock",
            Form::Serial => "events_serial",
        }
    }

    /// The statements that recreate its table and the function of its append.
    pub fn schema(self) -> String {
        let table = self.table();
        let sequence = self.sequence();
        let function = self.function();
        format!(
            "drop table if exists {table};
             create table {table} (
               run_id text not null, run_seq {sequence} not null,
               event_id uuid not null default gen_random_uuid(),
               event_type text not null, step_id text, data jsonb not null,
               idempotency_key text not null, emitted_at timestamptz not null,
               persisted_at timestamptz not null default now(),
               primary key (run_id, run_seq), unique (run_id, idempotency_key));
             {function}"
        )
    }

    /// The append statement. It returns the sequence number, negated if the event already existed. One
    /// round trip in either form.
    pub fn append(self) -> &'static str {
        match self {
            Form::Lock => "select append_lock($1, $2, $3, $4, $5, $6)",
            Form::Serial => "select append_serial($1, $2, $3, $4, $5, $6)",
        }
    }

    /// The query for a page of a run.
    pub fn fetch(self) -> String {
        format!(
            "select run_id, run_seq, event_id, event_type, step_id, data, idempotency_key, emitted_at, persisted_at
             from {} where run_id = $1 and run_seq > $2 order by run_seq limit $3",
            self.table()
        )
    }

    fn sequence(self) -> &'static str {
        match self {
            Form::Lock => "bigint",
            Form::Serial => "bigserial",
        }
    }

    fn function(self) -> String {
        match self {
            Form::Lock => function(
                "append_lock",
                "perform pg_advisory_xact_lock(hashtext(run));
                 insert into events_lock (run_id, run_seq, event_type, step_id, data, idempotency_key, emitted_at)
                   select run, coalesce(max(run_seq), 0) + 1, kind, step, what, key, emitted
                     from events_lock where run_id = run
                   on conflict (run_id, idempotency_key) do nothing returning run_seq into seq;",
                "events_lock",
            ),
            Form::Serial => function(
                "append_serial",
                "insert into events_serial (run_id, event_type, step_id, data, idempotency_key, emitted_at)
                   values (run, kind, step, what, key, emitted)
                   on conflict (run_id, idempotency_key) do nothing returning run_seq into seq;",
                "events_serial",
            ),
        }
    }
}

fn function(name: &str, insert: &str, table: &str) -> String {
    format!(
        "create or replace function {name}(run text, kind text, step text, what jsonb, key text, emitted timestamptz)
           returns bigint language plpgsql as $$
         declare seq bigint;
         begin
           {insert}
           if not found then
             select -run_seq into seq from {table} where run_id = run and idempotency_key = key;
           end if;
           return seq;
         end $$;"
    )
}
