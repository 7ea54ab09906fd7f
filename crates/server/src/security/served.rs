//! Authorization of binary (`WIRE`) requests other than transactions.

use super::audit::{Audit, Entry};
use super::right::{Area, Right};
use super::user::{Denied, User};
use mainstay::wire::{AdminRequest, FeedRequest, ReadOp, ReadRequest, TransactionRequest};
use mainstay::{CellCommand, Filter, RecordCommand, RunCommand, StateCommand, Transaction};

/// Any permission on the contents of keys.
const DATA: Right = Right::either(Area::Cells)
    .or(Area::Records)
    .or(Area::Runs)
    .or(Area::Outbox)
    .or(Area::Keyed)
    .or(Area::Sessions);

/// A request of the remote client.
pub enum Wanted<'a> {
    /// `WIRE.EXECUTE`.
    Execute(&'a Transaction),
    /// `WIRE.READ`.
    Look(&'a ReadRequest),
    /// `WIRE.RUN`: a step of an open transaction or of a view of the past.
    Act(&'a TransactionRequest),
    /// `WIRE.FEED`.
    Follow(&'a FeedRequest),
    /// `WIRE.ASK`.
    Ask(&'a AdminRequest),
}

impl User {
    /// Checks that the user may execute a request.
    pub fn allow_wanted(&self, wanted: &Wanted<'_>) -> Result<(), Denied> {
        if self.is_unlimited() {
            return Ok(());
        }
        match wanted {
            Wanted::Execute(transaction) => self.allow(transaction),
            Wanted::Look(look) => self.allow_read(&look.read),
            Wanted::Act(act) => self.allow_act(act),
            Wanted::Follow(follow) => self.allow_feed(&follow.filter),
            Wanted::Ask(question) => self.allow_question(question),
        }
    }

    fn allow_read(&self, read: &ReadOp) -> Result<(), Denied> {
        match read {
            ReadOp::Get { name } | ReadOp::History { name, .. } => {
                self.allow_command(&CellCommand::Get { name: name.clone() }.into())
            }
            ReadOp::List { prefix, .. } => {
                self.may(Right::read(Area::Cells))?;
                self.may_list(prefix.as_bytes())
            }
            // A read of records needs the same permissions as the command with the same effect.
            ReadOp::Records(command) => self.allow_record(command),
            ReadOp::RecordHistory { key, .. } => {
                self.allow_command(&RecordCommand::Get { key: key.clone(), fields: None }.into())
            }
            ReadOp::Runs(command) => self.allow_run(command),
            ReadOp::Outbox(command) => self.allow_outbox(command),
            ReadOp::State(command) => self.allow_state(command),
        }
    }

    /// A commit needs no check, because its commands were checked when they ran.
    fn allow_act(&self, act: &TransactionRequest) -> Result<(), Denied> {
        match act {
            TransactionRequest::Run(command) => self.allow_command(command),
            TransactionRequest::Look(read) => self.allow_read(read),
            TransactionRequest::Begin { .. } | TransactionRequest::View { .. } => self.may(DATA),
            TransactionRequest::Commit { .. }
            | TransactionRequest::Take { .. }
            | TransactionRequest::Leave => Ok(()),
        }
    }

    fn allow_feed(&self, filter: &Filter) -> Result<(), Denied> {
        self.may(Right::read(Area::Feed))?;
        match (&filter.key, &filter.prefix) {
            (Some(key), _) => self.may_touch(key.as_bytes()),
            (None, prefix) => self.may_list(prefix.as_deref().unwrap_or_default().as_bytes()),
        }
    }

    fn allow_question(&self, question: &AdminRequest) -> Result<(), Denied> {
        match question {
            // These numbers are also part of every answer to a read or a write.
            AdminRequest::Revision
            | AdminRequest::DurableRevision
            | AdminRequest::StampOf(_)
            | AdminRequest::Resolve(_)
            | AdminRequest::WaitFor { .. }
            | AdminRequest::Sync => Ok(()),
            // A client that works on a branch first asks whether the branch exists.
            AdminRequest::Branch(_) => {
                self.may(DATA).or_else(|_| self.may(Right::read(Area::Branches)))
            }
            AdminRequest::Branches | AdminRequest::Tags => self.may(Right::read(Area::Branches)),
            AdminRequest::Diff(..) => {
                self.may(Right::read(Area::Branches))?;
                self.may_touch_everything()
            }
            AdminRequest::Stats => self.may(Right::read(Area::Server)),
            AdminRequest::Indexes => {
                self.may(Right::read(Area::Records))?;
                self.may_touch_everything()
            }
            AdminRequest::Tail { run, .. } | AdminRequest::RevisionOf { run, .. } => {
                self.allow_run(&RunCommand::Get { run: run.clone() })
            }
            AdminRequest::StateSince { space, .. } => {
                self.allow_state(&StateCommand::Info { space: space.clone() })
            }
            AdminRequest::Explain { prefix, .. } => {
                self.may(Right::read(Area::Records))?;
                self.may_list(prefix.as_bytes())
            }
            // These contain the names of branches and tags.
            AdminRequest::Pins => {
                self.may(Right::read(Area::Server))?;
                self.may(Right::read(Area::Branches))
            }
            AdminRequest::ExportHash(_) => {
                self.may(Right::read(Area::Admin))?;
                self.may_touch_everything()
            }
            AdminRequest::Sweep | AdminRequest::Trim | AdminRequest::ConfirmClock => {
                self.may(Right::write(Area::Admin))?;
                self.may_touch_everything()
            }
        }
    }
}

/// Returns the audit entry of a request, if it is audited.
pub fn audited_admin_request(
    audit: &Audit,
    user: &User,
    peer: &str,
    question: &AdminRequest,
) -> Option<Entry> {
    let (name, about) = administrative(question).filter(|_| audit.is_on())?;
    Some(Entry::new(Some(user.name()), peer, name, about))
}

/// Returns the audit name and the object of a request that needs administrative permissions.
fn administrative(question: &AdminRequest) -> Option<(&'static str, Option<&str>)> {
    match question {
        AdminRequest::Sweep => Some(("sweep", None)),
        AdminRequest::Trim => Some(("trim", None)),
        AdminRequest::ConfirmClock => Some(("clock.confirm", None)),
        AdminRequest::ExportHash(branch) => Some(("export.hash", Some(branch))),
        _ => None,
    }
}
