//! JSON form of a step: a command, and whether it must succeed or take effect.

use super::branch::{BranchForm, FinishForm, ForkForm, MergeForm, RenameForm, TagForm, UntagForm};
use super::cell::{
    CasForm, CountNamesForm, DeleteForm, ExpireForm, GetForm, IncrForm, InitForm, ListForm,
    RestoreForm, SetForm, VersionsForm,
};
use super::hash::{HashAddFloatForm, HashAddForm, HashCountForm, HashDeleteForm, HashSetForm};
use super::keyed::{
    AdvanceForm, AppendItemForm, DeclareForm, DeleteStateForm, GetStatesForm, ItemsForm,
    ListSpacesForm, PutStateForm, ScanStatesForm, SealForm, SpaceNameForm, WaitingStatesForm,
    WriteStatesForm,
};
use super::outbox::{
    AckMessagesForm, ClaimMessagesForm, DeadMessagesForm, FailMessageForm, LookForm,
    PutMessageForm, ReplayMessageForm,
};
use super::record::{
    CountForm, DeleteRecordForm, ExpireRecordForm, GetRecordForm, RestoreRecordForm, ScanForm,
    WriteRecordForm,
};
use super::run::{
    AppendEventForm, BootstrapForm, EventRevisionForm, FetchForm, KeepStateForm, KeptStateForm,
    ListRunsForm, RestoreRunForm, RunNameForm, RunSnapshotForm,
};
use super::session::{
    AcknowledgeForm, HasPendingForm, KeepSessionForm, ListSessionsForm, OpenSessionForm,
    PendingForm, RetryForm, SendRequestForm, SessionNameForm,
};
use super::text::{
    AddFloatForm, AddForm, AppendForm, ExpireIfForm, SetAllForm, SwapForm, TouchForm,
};
use crate::outbox;
use mainstay::{
    BranchCommand, Code, Command, Demand, Error, OutboxCommand, Result, RunCommand, SessionCommand,
    StateCommand, Step, StringCommand, SystemCommand,
};
use serde::Deserialize;
use utoipa::ToSchema;

/// What to do.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepForm {
    /// Writes a cell when it is absent; answers its counter either way.
    Init(InitForm),
    /// Writes a cell; answers its counter.
    Set(SetForm),
    /// Writes a cell when its counter is the expected one; answers the counter or null.
    Cas(CasForm),
    /// Deletes a cell; answers whether it did.
    Delete(DeleteForm),
    /// Adds to a number; an absent cell counts as zero.
    Incr(IncrForm),
    /// Changes a cell's time to live; answers whether the cell exists.
    Expire(ExpireForm),
    /// Writes a version as an export kept it; the counter never falls.
    Restore(RestoreForm),
    /// Reads a cell, at the point where the transaction stands.
    Get(GetForm),
    /// Lists names in byte order.
    List(ListForm),
    /// The versions of a cell, newest first; the first may be what this transaction wrote.
    History(VersionsForm),
    /// Names of cells and records in byte order, each once.
    ListNames(ListForm),
    /// How many names of cells and records there are, at most 100,000.
    CountNames(CountNamesForm),
    /// Writes if a condition holds; answers what was there before, written or not.
    Swap(SwapForm),
    /// Writes several cells, or none.
    SetAll(SetAllForm),
    /// Deletes a cell; answers what was there.
    Take(GetForm),
    /// Reads a cell and changes its time to live and nothing else.
    Touch(TouchForm),
    /// Puts text behind a text; answers its length in bytes. An absent cell counts as empty.
    Append(AppendForm),
    /// Adds to a whole number or to the text of one, which stays a text.
    Add(AddForm),
    /// Adds to a number or to the text of one, exactly: 0.1 and 0.2 are 0.3.
    AddFloat(AddFloatForm),
    /// Changes a cell's time to live if a condition holds; answers whether it did.
    ExpireIf(ExpireIfForm),
    /// Ends a cell's time to live; answers whether there was one.
    Persist(GetForm),
    /// Writes a cell, whatever was there: a record of this name goes. Answers its counter.
    PutText(SetForm),
    /// Reads a cell; a record of this name is refused.
    GetText(GetForm),
    /// As `swap`; a record of this name is refused.
    SwapText(SwapForm),
    /// Writes fields of a record if all conditions hold; answers the counter or null.
    WriteRecord(WriteRecordForm),
    /// Deletes a record if all conditions hold; answers whether it did.
    DeleteRecord(DeleteRecordForm),
    /// Changes a record's time to live if a condition holds; answers whether it did.
    ExpireRecord(ExpireRecordForm),
    /// Writes a version of a record as an export kept it; the counter never falls.
    RestoreRecord(RestoreRecordForm),
    /// Reads a record, at the point where the transaction stands.
    GetRecord(GetRecordForm),
    /// Records in byte order of their keys.
    ScanRecords(ScanForm),
    /// How many records there are.
    CountRecords(CountForm),
    /// The versions of a record, newest first; the first may be what this transaction wrote.
    RecordHistory(VersionsForm),
    /// Puts fields in; answers how many of them are new. A cell of this name is refused.
    HashSet(HashSetForm),
    /// Takes fields out; answers how many of them were there. A cell of this name is refused.
    HashDelete(HashDeleteForm),
    /// Adds to a whole number in a field; answers the sum. A cell of this name is refused.
    HashAdd(HashAddForm),
    /// Adds to a decimal number in a field; answers the sum. A cell of this name is refused.
    HashAddFloat(HashAddFloatForm),
    /// Reads a record. A cell of this name is refused.
    HashGet(GetRecordForm),
    /// How many fields a record has. A cell of this name is refused.
    HashCount(HashCountForm),
    /// Appends an event; one whose key the run has already is the first one again.
    AppendEvent(AppendEventForm),
    /// Makes a run with its first events; fails where there is one.
    BootstrapRun(BootstrapForm),
    /// Deletes a whole run; answers whether there was one.
    DeleteRun(RunNameForm),
    /// Writes events as an archive kept them; answers how many were not there.
    RestoreRun(RestoreRunForm),
    /// Keeps what a reducer has made of a run's events; answers whether there is such a run.
    KeepState(KeepStateForm),
    /// What a reducer has made of a run.
    KeptState(KeptStateForm),
    /// What is known of a run.
    GetRun(RunNameForm),
    /// Events of a run, in order.
    FetchEvents(FetchForm),
    /// What the events of a run add up to.
    SnapshotRun(RunSnapshotForm),
    /// The same, from the first event on.
    ProjectRun(RunNameForm),
    /// Events of a run that could not follow those before them.
    RunAlerts(FetchForm),
    /// The revision that brought an event; null where there is none.
    EventRevision(EventRevisionForm),
    /// Runs in byte order of their names.
    ListRuns(ListRunsForm),
    /// Writes a message to be sent; answers its number.
    PutMessage(PutMessageForm),
    /// Takes messages that wait, the longest waiting first.
    ClaimMessages(ClaimMessagesForm),
    /// Messages were delivered: they go. Answers how many of them were there.
    AckMessages(AckMessagesForm),
    /// A message could not be delivered: it waits, or is dead.
    FailMessage(FailMessageForm),
    /// Dead messages, the oldest first.
    DeadMessages(DeadMessagesForm),
    /// Makes a dead message wait again; answers whether it was dead.
    ReplayMessage(ReplayMessageForm),
    /// How the outbox stands.
    LookAtOutbox(LookForm),
    /// Declares a space of keyed state; answers whether it is new.
    DeclareSpace(DeclareForm),
    /// Writes a key's state if the version is newer than the key's; answers what became of it.
    PutState(PutStateForm),
    /// Deletes a key's state if the version is newer than the key's; the version is remembered.
    DeleteState(DeleteStateForm),
    /// Adds an item to a key's log, unless the log has one of this id.
    AppendItem(AppendItemForm),
    /// Says how far a source was read.
    AdvancePosition(AdvanceForm),
    /// Several writes to one space; answers each.
    WriteStates(WriteStatesForm),
    /// Closes all versions below a frontier, at most so many entries; where that was not all, seal again.
    SealSpace(SealForm),
    /// Removes a space and everything in it; answers whether there was one.
    DropSpace(SpaceNameForm),
    /// What is known of keys, deleted ones included.
    GetStates(GetStatesForm),
    /// Keys of a space in byte order with their states.
    ScanStates(ScanStatesForm),
    /// Keys of a space in byte order.
    ListKeys(ScanStatesForm),
    /// Items of a key's log, in the order of their ids.
    ListItems(ItemsForm),
    /// Writes that wait until their versions are sealed.
    WaitingStates(WaitingStatesForm),
    /// How far sources were read.
    GetPositions(SpaceNameForm),
    /// What is known of a space.
    GetSpace(SpaceNameForm),
    /// Spaces in byte order of their names.
    ListSpaces(ListSpacesForm),
    /// Opens a session, or finds the one of this id. Stands alone.
    OpenSession(OpenSessionForm),
    /// A session's lease begins anew, and answers that its client has got go. Stands alone.
    KeepSessionAlive(KeepSessionForm),
    /// Ends a session; answers whether there was one. Stands alone.
    CloseSession(SessionNameForm),
    /// Sends a request to a session's client; answers its number, or null where there is no such session.
    SendRequest(SendRequestForm),
    /// A session's client has done all requests up to a number; answers how many that were.
    AcknowledgeRequests(AcknowledgeForm),
    /// What a session's client has not acknowledged.
    PendingRequests(PendingForm),
    /// What was sent before a moment and is not acknowledged; it counts as sent now. Stands alone.
    RetryRequests(RetryForm),
    /// Whether something was sent before a moment and is not acknowledged.
    HasPendingRequests(HasPendingForm),
    /// What is known of a session.
    GetSession(SessionNameForm),
    /// Sessions in the order of their ids.
    ListSessions(ListSessionsForm),
    /// Makes a branch that starts as another one was.
    Fork(ForkForm),
    /// Makes a branch that starts empty.
    CreateBranch(BranchForm),
    /// Begins an import: a branch that nobody sees before it is finished.
    ImportBranch(BranchForm),
    /// Finishes an import.
    FinishImport(FinishForm),
    /// Removes a branch.
    DeleteBranch(BranchForm),
    /// Gives a branch another name.
    RenameBranch(RenameForm),
    /// Brings the changes of one branch into another.
    Merge(MergeForm),
    /// Pins a revision by name.
    Tag(TagForm),
    /// Removes a tag.
    Untag(UntagForm),
    /// Turns expiries that are due into deletions.
    Sweep(SweepForm),
    /// Does what stands inside; where that does not take effect, the whole transaction fails.
    #[schema(no_recursion)]
    Must(Box<StepForm>),
    /// Does what stands inside; where that fails, its error is its answer and the others go on.
    #[schema(no_recursion)]
    Attempt(Box<StepForm>),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepForm {
    /// The most keys to touch.
    limit: usize,
}

impl StepForm {
    /// Converts the form to a step. The outbox settings supply the defaults for messages.
    pub fn step(self, sent: &outbox::Settings) -> Result<Step> {
        match self {
            StepForm::Must(inner) => inner.demanding(Demand::Effect, sent),
            StepForm::Attempt(inner) => inner.demanding(Demand::Nothing, sent),
            plain => plain.demanding(Demand::Success, sent),
        }
    }

    fn demanding(self, demand: Demand, sent: &outbox::Settings) -> Result<Step> {
        if matches!(self, StepForm::Must(_) | StepForm::Attempt(_)) {
            let message = "must and attempt: one of them, once, around a command";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(Step { command: self.command(sent)?, demand })
    }

    fn command(self, sent: &outbox::Settings) -> Result<Command> {
        Ok(match self {
            StepForm::ClaimMessages(form) => form.command(sent).into(),
            StepForm::FailMessage(form) => form.command(sent).into(),
            StepForm::Init(form) => form.command()?.into(),
            StepForm::Set(form) => form.command()?.into(),
            StepForm::Cas(form) => form.command()?.into(),
            StepForm::Delete(form) => form.command()?.into(),
            StepForm::Incr(form) => form.command()?.into(),
            StepForm::Expire(form) => form.command()?.into(),
            StepForm::Restore(form) => form.command()?.into(),
            StepForm::Get(form) => form.command()?.into(),
            StepForm::List(form) => form.command()?.into(),
            StepForm::History(form) => form.of_cell()?.into(),
            StepForm::ListNames(form) => form.names().into(),
            StepForm::CountNames(form) => form.command().into(),
            StepForm::Sweep(form) => SystemCommand::Sweep { limit: form.limit }.into(),
            StepForm::Swap(form) => form.command()?.into(),
            StepForm::SetAll(form) => form.command()?.into(),
            StepForm::Take(form) => StringCommand::Take { name: form.named()? }.into(),
            StepForm::Touch(form) => form.command()?.into(),
            StepForm::Append(form) => form.command()?.into(),
            StepForm::Add(form) => form.command()?.into(),
            StepForm::AddFloat(form) => form.command()?.into(),
            StepForm::ExpireIf(form) => form.command()?.into(),
            StepForm::Persist(form) => StringCommand::Persist { name: form.named()? }.into(),
            StepForm::PutText(form) => form.text()?.into(),
            StepForm::GetText(form) => StringCommand::Get { name: form.named()? }.into(),
            StepForm::SwapText(form) => form.text()?.into(),
            StepForm::Must(inner) | StepForm::Attempt(inner) => inner.command(sent)?,
            other => other.command_on_records()?,
        })
    }

    fn command_on_records(self) -> Result<Command> {
        Ok(match self {
            StepForm::WriteRecord(form) => form.command()?.into(),
            StepForm::DeleteRecord(form) => form.command()?.into(),
            StepForm::ExpireRecord(form) => form.command()?.into(),
            StepForm::RestoreRecord(form) => form.command()?.into(),
            StepForm::GetRecord(form) => form.command()?.into(),
            StepForm::ScanRecords(form) => form.command()?.into(),
            StepForm::CountRecords(form) => form.command()?.into(),
            StepForm::RecordHistory(form) => form.of_record()?.into(),
            StepForm::HashSet(form) => form.command()?.into(),
            StepForm::HashDelete(form) => form.command()?.into(),
            StepForm::HashAdd(form) => form.command()?.into(),
            StepForm::HashAddFloat(form) => form.command()?.into(),
            StepForm::HashGet(form) => form.hash()?.into(),
            StepForm::HashCount(form) => form.command()?.into(),
            other => other.command_on_runs()?,
        })
    }

    fn command_on_runs(self) -> Result<Command> {
        Ok(match self {
            StepForm::AppendEvent(form) => form.command()?.into(),
            StepForm::BootstrapRun(form) => form.command()?.into(),
            StepForm::DeleteRun(form) => RunCommand::Delete { run: form.named()? }.into(),
            StepForm::RestoreRun(form) => form.command()?.into(),
            StepForm::KeepState(form) => form.command()?.into(),
            StepForm::KeptState(form) => form.command()?.into(),
            StepForm::GetRun(form) => RunCommand::Get { run: form.named()? }.into(),
            StepForm::FetchEvents(form) => form.events()?.into(),
            StepForm::SnapshotRun(form) => form.command()?.into(),
            StepForm::ProjectRun(form) => RunCommand::Project { run: form.named()? }.into(),
            StepForm::RunAlerts(form) => form.alerts()?.into(),
            StepForm::EventRevision(form) => form.command()?.into(),
            StepForm::ListRuns(form) => form.command()?.into(),
            StepForm::PutMessage(form) => form.command()?.into(),
            StepForm::AckMessages(form) => form.command().into(),
            StepForm::DeadMessages(form) => form.command().into(),
            StepForm::ReplayMessage(form) => form.command().into(),
            StepForm::LookAtOutbox(_) => OutboxCommand::Look.into(),
            other => other.command_on_states()?,
        })
    }

    fn command_on_states(self) -> Result<Command> {
        Ok(match self {
            StepForm::DeclareSpace(form) => form.command()?.into(),
            StepForm::PutState(form) => form.command()?.into(),
            StepForm::DeleteState(form) => form.command()?.into(),
            StepForm::AppendItem(form) => form.command()?.into(),
            StepForm::AdvancePosition(form) => form.command()?.into(),
            StepForm::WriteStates(form) => form.command()?.into(),
            StepForm::SealSpace(form) => form.command()?.into(),
            StepForm::DropSpace(form) => StateCommand::Drop { space: form.named()? }.into(),
            StepForm::GetStates(form) => form.command()?.into(),
            StepForm::ScanStates(form) => form.states()?.into(),
            StepForm::ListKeys(form) => form.keys()?.into(),
            StepForm::ListItems(form) => form.command()?.into(),
            StepForm::WaitingStates(form) => form.command()?.into(),
            StepForm::GetPositions(form) => StateCommand::Positions { space: form.named()? }.into(),
            StepForm::GetSpace(form) => StateCommand::Info { space: form.named()? }.into(),
            StepForm::ListSpaces(form) => form.command()?.into(),
            other => other.command_on_sessions()?,
        })
    }

    fn command_on_sessions(self) -> Result<Command> {
        let command = match self {
            StepForm::OpenSession(form) => form.command()?,
            StepForm::KeepSessionAlive(form) => form.command()?,
            StepForm::CloseSession(form) => {
                SessionCommand::Close { session: form.named()?, epoch: 0 }
            }
            StepForm::SendRequest(form) => form.command()?,
            StepForm::AcknowledgeRequests(form) => form.command()?,
            StepForm::PendingRequests(form) => form.command()?,
            StepForm::RetryRequests(form) => form.command(),
            StepForm::HasPendingRequests(form) => form.command(),
            StepForm::GetSession(form) => SessionCommand::Info { session: form.named()? },
            StepForm::ListSessions(form) => form.command(),
            branch => return Ok(branch.branch_command()?.into()),
        };
        Ok(command.into())
    }

    fn branch_command(self) -> Result<BranchCommand> {
        match self {
            StepForm::Fork(form) => form.command(),
            StepForm::CreateBranch(form) => Ok(BranchCommand::Create { name: form.named()? }),
            StepForm::ImportBranch(form) => Ok(BranchCommand::Import { name: form.named()? }),
            StepForm::FinishImport(form) => form.command(),
            StepForm::DeleteBranch(form) => Ok(BranchCommand::Delete { name: form.named()? }),
            StepForm::RenameBranch(form) => form.command(),
            StepForm::Merge(form) => form.command(),
            StepForm::Tag(form) => form.command(),
            StepForm::Untag(form) => form.command(),
            _ => Err(Error::new(Code::Unsupported, "this is no command on branches")),
        }
    }
}
