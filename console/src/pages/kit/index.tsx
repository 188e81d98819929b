// Every component on one page, for those who build pages. Only with `npm run dev`.
import { Camera, Pause, Plus, Trash2 } from 'lucide-react';
import { useMemo, useState } from 'react';
import { ApiError } from '../../api';
import { cli, curl } from '../../format/snippet';
import * as ui from '../../ui';
import { ChatParts } from './chat';
import { KitTable } from './table';

const FAULT = new ApiError({
  code: 409,
  error_code: 'storage_full',
  message: 'The disk quota is full: 500 of 500 GiB. Delete a snapshot or ask for more.',
  requestId: 'req_8fk2m1x0q1',
});

const STATES = [
  'creating',
  'running',
  'waiting',
  'paused',
  'suspended',
  'archived',
  'stopped',
  'failed',
  'done',
] as const;

function Fields() {
  const [name, setName] = useState('');
  const [number, setNumber] = useState<number | null>(3600);
  const [end, setEnd] = useState('pause');
  const [memory, setMemory] = useState(2);
  const [on, setOn] = useState(true);
  return (
    <ui.Card title="Fields">
      <div className="stack">
        <ui.TextField label="Name" value={name} onChange={setName} placeholder="todo-app" hint="Letters and dashes." />
        <ui.TextField
          label="Memory"
          value="900 GiB"
          onChange={() => {}}
          mono
          error="This server has 62 GiB. Use 48 GiB or less."
        />
        <ui.NumberField label="Timeout" value={number} onChange={setNumber} min={1} unit="s" />
        <ui.Select
          label="Then"
          value={end}
          onChange={setEnd}
          options={[
            { id: 'pause', label: 'pause it' },
            { id: 'kill', label: 'kill it', note: 'its disk is lost' },
          ]}
        />
        <ui.Slider label="Memory" value={memory} onChange={setMemory} min={1} max={16} format={(v) => `${v} GiB`} />
        <div className="row wrap">
          <ui.Checkbox isSelected={on} onChange={setOn}>
            Keep disk
          </ui.Checkbox>
          <ui.Switch isSelected={on} onChange={setOn}>
            Resume by itself
          </ui.Switch>
          <ui.Segmented
            label="View"
            value={end}
            onChange={setEnd}
            options={[
              { id: 'pause', label: 'Pause' },
              { id: 'kill', label: 'Kill' },
            ]}
          />
        </div>
      </div>
    </ui.Card>
  );
}

function Overlays() {
  const [dialog, setDialog] = useState(false);
  return (
    <ui.Card title="Buttons and what floats">
      <div className="row wrap">
        <ui.Button look="primary">
          <Plus />
          Create
          <ui.KeyHint keys="c" />
        </ui.Button>
        <ui.Button>Pause</ui.Button>
        <ui.Button look="quiet">Cancel</ui.Button>
        <ui.Button look="danger" onPress={() => setDialog(true)}>
          Kill…
        </ui.Button>
        <ui.Button isDisabled>Fork</ui.Button>
        <ui.Button size="sm">Small</ui.Button>
        <ui.SnippetMenu api={curl('GET', '/v2/sandboxes')} cli={cli('ls')} />
        <ui.Menu
          label="Actions"
          trigger={<ui.Button>Menu</ui.Button>}
          items={[
            { label: 'Pause', icon: <Pause />, keys: 'p' },
            { label: 'Snapshot', icon: <Camera /> },
            'separator',
            { label: 'Kill…', icon: <Trash2 />, danger: true, onAction: () => setDialog(true) },
          ]}
        />
        <ui.Button onPress={() => ui.toast.done('todo-app paused', { text: 'The next request resumes it.' })}>
          Toast
        </ui.Button>
        <ui.Button onPress={() => ui.toast.failed('Could not fork report-q3', FAULT)}>Failed toast</ui.Button>
      </div>
      <ui.ConfirmDialog
        isOpen={dialog}
        onClose={() => setDialog(false)}
        title="Kill todo-app?"
        action="Kill todo-app"
        onConfirm={() => Promise.reject(FAULT)}
      >
        Its disk (1.9 GiB) is lost. 3 snapshots stay.
      </ui.ConfirmDialog>
    </ui.Card>
  );
}

export default function Kit() {
  const snippets = useMemo(
    () => [
      { label: 'CLI', text: cli('create', '--template', 'base') },
      { label: 'API', text: curl('POST', '/v2/sandboxes', { templateID: 'base' }) },
    ],
    [],
  );
  return (
    <ui.Page title="Components">
      <ui.PageHead title="Components" crumbs={[{ label: 'Home', href: '/' }]} />
      <ui.Tabs
        label="Parts"
        tabs={[
          { href: '/kit', label: 'All', selected: true },
          { href: '/', label: 'Snapshots', count: 3, selected: false },
        ]}
      />
      <ui.ErrorBanner error={FAULT} onRetry={() => {}} />
      <Overlays />
      <Fields />
      <ui.Card title="States">
        <div className="row wrap">
          {STATES.map((state) => (
            <span key={state} className="row">
              <ui.StateText state={state} word={state} detail="3 m" />
              <ui.StateBadge state={state} word={state} />
            </span>
          ))}
        </div>
      </ui.Card>
      <ui.Snippets snippets={snippets} />
      <ui.EmptyState title="No sandboxes yet" action={<ui.Button>Create a sandbox</ui.Button>} command="cabana create">
        A sandbox is a computer of its own for one task.
      </ui.EmptyState>
      <ui.SkeletonRows rows={3} />
      <ChatParts />
      <KitTable />
    </ui.Page>
  );
}
