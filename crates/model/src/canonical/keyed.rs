//! Canonical bytes of commands on keyed state.

use super::Out;
use crate::{SpaceInfo, SpaceOptions, StateCommand, StatePlace, StateWrite, Version};

impl Out<'_> {
    pub(super) fn state(&mut self, command: &StateCommand) {
        match command {
            StateCommand::Declare { space, options } => {
                self.named(160, space.as_str());
                self.space_options(options);
            }
            StateCommand::Write { space, writes } => {
                self.named(161, space.as_str());
                self.number(writes.len() as u64);
                writes.iter().for_each(|write| self.state_write(write));
            }
            StateCommand::Seal { space, frontier, limit } => {
                self.named(162, space.as_str());
                self.version(*frontier);
                self.number(*limit as u64);
            }
            StateCommand::Drop { space } => self.named(163, space.as_str()),
            StateCommand::Restore { space, info, block, begun, ends } => {
                self.named(164, space.as_str());
                self.space_info(info);
                self.bytes(block.as_bytes());
                self.maybe(*begun);
                self.number(u64::from(*ends));
            }
            StateCommand::Abandon { space, begun } => {
                self.named(175, space.as_str());
                self.number(*begun);
            }
            StateCommand::Take { space, info, block } => {
                self.named(165, space.as_str());
                self.space_info(info);
                self.bytes(block.as_bytes());
            }
            StateCommand::Replay { space, info, block, hidden, shows } => {
                self.named(176, space.as_str());
                self.space_info(info);
                self.bytes(block.as_bytes());
                self.number(u64::from(*hidden));
                self.number(u64::from(*shows));
            }
            StateCommand::Look { space, keys } => {
                self.named(166, space.as_str());
                self.number(keys.len() as u64);
                keys.iter().for_each(|key| self.bytes(&key.0));
            }
            StateCommand::Scan { space, prefix, after, limit } => {
                self.named(167, space.as_str());
                self.page(prefix, after.as_deref(), *limit);
            }
            StateCommand::List { space, prefix, after, limit } => {
                self.named(168, space.as_str());
                self.page(prefix, after.as_deref(), *limit);
            }
            StateCommand::Items { space, key, after, limit } => {
                self.named(169, space.as_str());
                self.page(key, after.as_deref(), *limit);
            }
            StateCommand::Waiting { space, below, limit } => {
                self.named(170, space.as_str());
                self.option(*below, Out::version);
                self.number(*limit as u64);
            }
            StateCommand::Positions { space } => self.named(171, space.as_str()),
            StateCommand::Info { space } => self.named(172, space.as_str()),
            StateCommand::Spaces { prefix, after, limit } => {
                self.named(173, prefix);
                self.maybe_text(after.as_deref());
                self.number(*limit as u64);
            }
            StateCommand::Dump { space, after, limit_bytes } => {
                self.named(174, space.as_str());
                self.option(after.as_deref(), Out::bytes);
                self.number(*limit_bytes as u64);
            }
        }
    }

    fn page(&mut self, prefix: &[u8], after: Option<&[u8]>, limit: usize) {
        self.bytes(prefix);
        self.option(after, Out::bytes);
        self.number(limit as u64);
    }

    fn state_write(&mut self, write: &StateWrite) {
        match write {
            StateWrite::Put { key, value, version } => {
                self.tag(1);
                self.bytes(key);
                self.bytes(value);
                self.version(*version);
            }
            StateWrite::Delete { key, version } => {
                self.tag(2);
                self.bytes(key);
                self.version(*version);
            }
            StateWrite::Append { key, id, item } => {
                self.tag(3);
                self.bytes(key);
                self.bytes(id);
                self.bytes(item);
            }
            StateWrite::Advance { source, position } => {
                self.named(4, source);
                self.number(*position);
            }
            StateWrite::Merge { key, value, version, read, settles } => {
                self.tag(5);
                self.bytes(key);
                self.option(value.as_deref(), Out::bytes);
                self.version(*version);
                self.option(*read, Out::version);
                self.number(settles.len() as u64);
                settles.iter().for_each(|version| self.version(*version));
            }
            StateWrite::AllSettled { below } => {
                self.tag(6);
                self.version(*below);
            }
        }
    }

    pub(super) fn version(&mut self, version: Version) {
        self.bytes(&version.to_bytes());
    }

    fn space_options(&mut self, options: &SpaceOptions) {
        let SpaceOptions { versions, ordered, merged, groups } = options;
        self.option(*versions, |out, kind| out.number(kind.bytes() as u64));
        self.tag(u8::from(*ordered));
        self.tag(u8::from(*merged));
        self.number(u64::from(*groups));
    }

    fn space_info(&mut self, info: &SpaceInfo) {
        self.space_options(&info.options);
        self.option(info.frontier, Out::version);
    }

    pub(super) fn state_place(&mut self, place: &StatePlace) {
        match place {
            StatePlace::Space => self.tag(1),
            StatePlace::Key(key) => {
                self.tag(2);
                self.bytes(key);
            }
            StatePlace::Item { key, id } => {
                self.tag(3);
                self.bytes(key);
                self.bytes(id);
            }
            StatePlace::Position(source) => self.named(4, source),
            StatePlace::Open(version) => {
                self.tag(6);
                self.version(*version);
            }
            StatePlace::Range { prefix, after, upto } => {
                self.tag(5);
                self.bytes(prefix);
                self.option(after.as_deref(), Out::bytes);
                self.option(upto.as_deref(), Out::bytes);
            }
        }
    }
}
