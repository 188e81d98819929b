// What the page of a chat says.
import { plural } from '../../format/size';

export const strings = {
  conversation: 'Chat',
  menu: 'Chat menu',
  all: 'All chats',
  snippets: 'As API call and CLI…',
  snippetsTitle: 'Go on with this chat from elsewhere',
  example: 'and now fix them',
  done: 'Done',
  copyId: 'Copy the chat’s id',
  copied: 'Id copied',
  forkAll: 'Fork with computer',
  showPane: 'Show the pane',
  togglePane: 'Hide or show the pane',
  group: 'This chat',
  splitter: 'Width of the conversation',
  side: 'What is shown',
  sides: { chat: 'Chat', pane: 'Pane' },
  sandbox: (name: string, state: string) => `Sandbox ${name}: ${state}`,
  goneTitle: 'This chat is gone',
  goneText: 'It was deleted, or you may not see it.',
  forked: 'Forked: this chat has a copy of the computer',
  forkFailed: 'Could not fork the chat',
  restoreTitle: 'Restore files to here?',
  restoreIt: 'Restore files',
  restoreText: (messages: number) =>
    `The files go back to what they were before this message, and ${plural(messages, 'message')} from here on leave the conversation. Programs and services that run now are ended.`,
  restoreKept: 'What is there now is kept as a checkpoint.',
  restored: 'Files restored',
  changeFailed: 'Could not change the chat',
  shotName: (service: string) => `screenshot${service ? ` of ${service}` : ''}.png`,
};
