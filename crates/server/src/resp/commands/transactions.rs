//! Transaction commands: `MULTI`, `EXEC`, `WATCH`, and `TXN.*`.

use crate::resp::connection_state::{CommandContext, CommandOutcome, PendingReply};
use crate::resp::multi;
use crate::resp::permissions::{KeyScope, READ_DATA, Requirement};
use crate::resp::reply::{OK, Reply};
use crate::resp::table::{Group, Handler, Spec};
use mainstay::limits::GUARD_LIMIT;
use mainstay::{Contract, Guard};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("multi", 1, Handler::Control(multi::multi))
        .without_data()
        .summarize("Keeps the commands that follow for EXEC"),
    of("exec", 1, Handler::Control(multi::exec))
        .without_data()
        .summarize("Does what was kept, all at once"),
    of("discard", 1, Handler::Control(multi::discard))
        .without_data()
        .summarize("Forgets what was kept"),
    of("watch", -2, Handler::Control(watch))
        .without_data()
        .at_workers()
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .requires(Requirement::Permission(READ_DATA))
        .key_scope(KeyScope::Words)
        .summarize("EXEC does nothing if these change"),
    of("unwatch", 1, Handler::Immediate(unwatch))
        .without_data()
        .summarize("Watches nothing any more"),
    of("txn.begin", 1, Handler::Control(begin))
        .without_data()
        .summarize("Opens a serializable transaction"),
    of("txn.commit", 1, Handler::Control(commit))
        .without_data()
        .summarize("Commits it; the revision, or CONFLICT"),
    of("txn.rollback", 1, Handler::Control(rollback)).without_data().summarize("Forgets it"),
];

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Transactions, run)
}

fn watch(context: &mut CommandContext<'_>) -> CommandOutcome {
    if context.state.multi.is_some() {
        return CommandOutcome::Reply(Reply::error("ERR WATCH inside MULTI is not allowed"));
    }
    let kinds = context.kinds();
    let most = GUARD_LIMIT / kinds.len().max(1);
    if context.state.watch_guards.len() + (context.words.len() - 1) * kinds.len() > GUARD_LIMIT {
        let message = format!("TOOLARGE {most} keys are the most that can be watched");
        return CommandOutcome::Reply(Reply::error(message));
    }
    CommandOutcome::Reply(match watch_guards(context, &kinds) {
        Ok(guards) => {
            context.state.watch_guards.extend(guards);
            OK
        }
        Err(reply) => reply,
    })
}

/// Returns guards for the present state of the keys, of every kind, as of one revision.
fn watch_guards(context: &CommandContext<'_>, kinds: &[Contract]) -> Result<Vec<Guard>, Reply> {
    let read_view = context.read_view()?;
    let since = read_view.revision();
    let mut guards = Vec::with_capacity(kinds.len() * (context.words.len() - 1));
    for word in &context.words[1..] {
        let name = crate::resp::arguments::name(word)?;
        for &contract in kinds {
            let expires = read_view.expiry(contract, &name)?;
            guards.push(Guard::Unchanged { contract, name: name.clone(), since, expires });
        }
    }
    Ok(guards)
}

fn unwatch(context: &mut CommandContext<'_>) -> Reply {
    context.state.watch_guards.clear();
    OK
}

fn begin(context: &mut CommandContext<'_>) -> CommandOutcome {
    let state = &mut *context.state;
    if state.multi.is_some() {
        return CommandOutcome::Reply(Reply::error("ERR TXN.BEGIN is not for inside MULTI"));
    }
    if state.open_transaction.is_some() {
        let message = "ERR a transaction is open already: TXN.COMMIT or TXN.ROLLBACK first";
        return CommandOutcome::Reply(Reply::error(message));
    }
    let result = state.shared.db.branch(&state.branch).and_then(|branch| branch.begin());
    CommandOutcome::Reply(match result {
        Ok(mut open) => {
            if let Some(durability) = state.durability {
                open.durability(durability);
            }
            state.open_transaction = Some(Box::new(open));
            OK
        }
        Err(error) => error.into(),
    })
}

/// The error if no transaction is open.
pub fn no_open_transaction() -> Reply {
    Reply::error("ERR no transaction is open: TXN.BEGIN first")
}

fn commit(context: &mut CommandContext<'_>) -> CommandOutcome {
    let Some(open) = context.state.open_transaction.take() else {
        return CommandOutcome::Reply(no_open_transaction());
    };
    match open.into_transaction() {
        Ok(transaction) => multi::schedule(context.state, transaction, PendingReply::Commit),
        Err(error) => CommandOutcome::Reply(error.into()),
    }
}

fn rollback(context: &mut CommandContext<'_>) -> CommandOutcome {
    CommandOutcome::Reply(match context.state.open_transaction.take() {
        Some(_) => OK,
        None => no_open_transaction(),
    })
}
