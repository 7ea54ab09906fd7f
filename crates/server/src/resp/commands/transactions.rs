//! Transaction commands: `MULTI`, `EXEC`, `WATCH`, and `TXN.*`.

use crate::resp::multi;
use crate::resp::reply::{OK, Reply};
use crate::resp::rights::{Needs, READ, Reach};
use crate::resp::session::{Call, Handled, Owed};
use crate::resp::table::{Group, Run, Spec};
use mainstay::limits::GUARD_LIMIT;
use mainstay::{Contract, Guard};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("multi", 1, Run::Control(multi::multi))
        .without_data()
        .about("Keeps the commands that follow for EXEC"),
    of("exec", 1, Run::Control(multi::exec))
        .without_data()
        .about("Does what was kept, all at once"),
    of("discard", 1, Run::Control(multi::discard)).without_data().about("Forgets what was kept"),
    of("watch", -2, Run::Control(watch))
        .without_data()
        .to_workers()
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .needs(Needs::Right(READ))
        .reaches(Reach::Words)
        .about("EXEC does nothing if these change"),
    of("unwatch", 1, Run::Session(unwatch)).without_data().about("Watches nothing any more"),
    of("txn.begin", 1, Run::Control(begin))
        .without_data()
        .about("Opens a serializable transaction"),
    of("txn.commit", 1, Run::Control(commit))
        .without_data()
        .about("Commits it; the revision, or CONFLICT"),
    of("txn.rollback", 1, Run::Control(rollback)).without_data().about("Forgets it"),
];

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Transactions, run)
}

fn watch(call: &mut Call<'_>) -> Handled {
    if call.session.multi.is_some() {
        return Handled::Reply(Reply::error("ERR WATCH inside MULTI is not allowed"));
    }
    let kinds = call.kinds();
    let most = GUARD_LIMIT / kinds.len().max(1);
    if call.session.watched.len() + (call.words.len() - 1) * kinds.len() > GUARD_LIMIT {
        let message = format!("TOOLARGE {most} keys are the most that can be watched");
        return Handled::Reply(Reply::error(message));
    }
    Handled::Reply(match watched(call, &kinds) {
        Ok(guards) => {
            call.session.watched.extend(guards);
            OK
        }
        Err(reply) => reply,
    })
}

/// Returns guards for the present state of the keys, of every kind, as of one revision.
fn watched(call: &Call<'_>, kinds: &[Contract]) -> Result<Vec<Guard>, Reply> {
    let moment = call.moment()?;
    let since = moment.revision();
    let mut guards = Vec::with_capacity(kinds.len() * (call.words.len() - 1));
    for word in &call.words[1..] {
        let name = crate::resp::arguments::name(word)?;
        for &contract in kinds {
            let expires = moment.expiry(contract, &name)?;
            guards.push(Guard::Unchanged { contract, name: name.clone(), since, expires });
        }
    }
    Ok(guards)
}

fn unwatch(call: &mut Call<'_>) -> Reply {
    call.session.watched.clear();
    OK
}

fn begin(call: &mut Call<'_>) -> Handled {
    let session = &mut *call.session;
    if session.multi.is_some() {
        return Handled::Reply(Reply::error("ERR TXN.BEGIN is not for inside MULTI"));
    }
    if session.open.is_some() {
        let message = "ERR a transaction is open already: TXN.COMMIT or TXN.ROLLBACK first";
        return Handled::Reply(Reply::error(message));
    }
    let begun = session.shared.db.branch(&session.branch).and_then(|branch| branch.begin());
    Handled::Reply(match begun {
        Ok(mut open) => {
            if let Some(durability) = session.durability {
                open.durability(durability);
            }
            session.open = Some(Box::new(open));
            OK
        }
        Err(error) => error.into(),
    })
}

/// The error if no transaction is open.
pub fn none_open() -> Reply {
    Reply::error("ERR no transaction is open: TXN.BEGIN first")
}

fn commit(call: &mut Call<'_>) -> Handled {
    let Some(open) = call.session.open.take() else { return Handled::Reply(none_open()) };
    match open.into_transaction() {
        Ok(transaction) => multi::done(call.session, transaction, Owed::Commit),
        Err(error) => Handled::Reply(error.into()),
    }
}

fn rollback(call: &mut Call<'_>) -> Handled {
    Handled::Reply(match call.session.open.take() {
        Some(_) => OK,
        None => none_open(),
    })
}
