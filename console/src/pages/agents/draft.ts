// What is typed in the form of an agent, and what is sent. Pure.
import type { Agent, Approve, ChatTool, NewAgent } from '../../api/chat-types';
import { cli } from '../../format/snippet';

export interface Rule {
  /** For React; not sent. */
  id: number;
  /** A tool's name, where * stands for any text. */
  pattern: string;
  approve: Approve;
}

export interface Draft {
  name: string;
  description: string;
  /** Empty: the server's default. */
  model: string;
  system: string;
  sandbox: boolean;
  template: string;
  cpuCount: number | null;
  memoryMB: number | null;
  /** Names of sandboxes, and of tools, with blanks or commas between them. */
  names: string;
  allow: string;
  rules: readonly Rule[];
  services: boolean;
  ask: boolean;
  /** Tools that a client runs: they are kept as they are. */
  functions: readonly ChatTool[];
  maxSteps: number | null;
  maxMinutes: number | null;
  /** In the currency, not in millionths. */
  maxCost: number | null;
  /** One in each line. */
  suggestions: string;
}

let ids = 0;
export const rule = (pattern = '', approve: Approve = 'ask'): Rule => ({ id: ++ids, pattern, approve });

export const EMPTY: Draft = {
  name: '',
  description: '',
  model: '',
  system: '',
  sandbox: true,
  template: '',
  cpuCount: null,
  memoryMB: null,
  names: '',
  allow: '',
  rules: [],
  services: true,
  ask: true,
  functions: [],
  maxSteps: 50,
  maxMinutes: 60,
  maxCost: null,
  suggestions: '',
};

export const MOST = { description: 2000, system: 65_536, suggestions: 12, suggestion: 300 };

export function draftOf(agent: Agent): Draft {
  const sandbox = agent.tools.find((tool) => tool.type === 'sandbox');
  return {
    name: agent.name,
    description: agent.description,
    model: agent.model ?? '',
    system: agent.system,
    sandbox: sandbox !== undefined,
    template: sandbox?.template ?? '',
    cpuCount: sandbox?.cpuCount ?? null,
    memoryMB: sandbox?.memoryMB ?? null,
    names: (sandbox?.names ?? []).join(', '),
    allow: (sandbox?.allow ?? []).join(', '),
    rules: Object.entries(sandbox?.approve ?? {}).map(([pattern, approve]) => rule(pattern, approve)),
    services: agent.tools.some((tool) => tool.type === 'services'),
    ask: agent.tools.some((tool) => tool.type === 'ask'),
    functions: agent.tools.filter((tool) => tool.type === 'function'),
    maxSteps: agent.limits.maxSteps,
    maxMinutes: agent.limits.maxMinutes,
    maxCost: agent.limits.maxCostMicros === null ? null : agent.limits.maxCostMicros / 1_000_000,
    suggestions: agent.suggestions.join('\n'),
  };
}

const words = (text: string): string[] => [...new Set(text.split(/[\s,]+/).filter(Boolean))];

const lines = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);

export function toolsOf(draft: Draft): ChatTool[] {
  const tools: ChatTool[] = [];
  if (draft.sandbox) {
    const approve = draft.rules.map((one) => [one.pattern.trim(), one.approve] as const).filter(([pattern]) => pattern);
    const [names, allow] = [words(draft.names), words(draft.allow)];
    tools.push({
      type: 'sandbox',
      ...(draft.template.trim() ? { template: draft.template.trim() } : {}),
      ...(draft.cpuCount === null ? {} : { cpuCount: draft.cpuCount }),
      ...(draft.memoryMB === null ? {} : { memoryMB: draft.memoryMB }),
      ...(names.length > 0 ? { names } : {}),
      ...(allow.length > 0 ? { allow } : {}),
      ...(approve.length > 0 ? { approve: Object.fromEntries(approve) } : {}),
    });
  }
  if (draft.services) tools.push({ type: 'services' });
  if (draft.ask) tools.push({ type: 'ask' });
  return [...tools, ...draft.functions];
}

/** Everything, so that what was emptied is empty on the server, too. */
export function bodyOf(draft: Draft): NewAgent & { model: string } {
  return {
    name: draft.name.trim(),
    description: draft.description.trim(),
    model: draft.model,
    system: draft.system,
    tools: toolsOf(draft),
    limits: {
      maxSteps: draft.maxSteps ?? EMPTY.maxSteps!,
      maxMinutes: draft.maxMinutes ?? EMPTY.maxMinutes!,
      maxCostMicros: draft.maxCost === null || draft.maxCost <= 0 ? null : Math.round(draft.maxCost * 1_000_000),
    },
    suggestions: lines(draft.suggestions),
  };
}

/** For a new one, what is empty is left out: the server knows better. */
export function newBodyOf(draft: Draft): NewAgent {
  const { description, model, system, suggestions, ...rest } = bodyOf(draft);
  return {
    ...rest,
    ...(description ? { description } : {}),
    ...(model ? { model } : {}),
    ...(system ? { system } : {}),
    ...(suggestions && suggestions.length > 0 ? { suggestions } : {}),
  };
}

export type Problem = 'name' | 'description' | 'system' | 'allow' | 'names' | 'rules' | 'suggestions';

const PATTERN = /^[a-z0-9_*]{1,64}$/;
const SANDBOX = /^[a-z0-9][a-z0-9_-]{0,39}$/;

export function problemsOf(draft: Draft): Set<Problem> {
  const found = new Set<Problem>();
  const name = draft.name.trim();
  if (!/^[A-Za-z0-9 ._-]{1,64}$/.test(name)) found.add('name');
  if (draft.description.length > MOST.description) found.add('description');
  if (draft.system.length > MOST.system) found.add('system');
  if (words(draft.allow).some((one) => !PATTERN.test(one))) found.add('allow');
  const names = words(draft.names);
  if (names.length > 8 || names.some((one) => !SANDBOX.test(one))) found.add('names');
  const patterns = draft.rules.map((one) => one.pattern.trim()).filter(Boolean);
  if (patterns.some((one) => !PATTERN.test(one)) || new Set(patterns).size < patterns.length) found.add('rules');
  const suggestions = lines(draft.suggestions);
  if (suggestions.length > MOST.suggestions || suggestions.some((one) => one.length > MOST.suggestion)) {
    found.add('suggestions');
  }
  return found;
}

/** The same as a command; null if that has no words for it. */
export function commandOf(draft: Draft): string | null {
  const { description, model, system, suggestions = [], limits } = newBodyOf(draft);
  const hasUsual =
    limits?.maxSteps === EMPTY.maxSteps && limits?.maxMinutes === EMPTY.maxMinutes && limits?.maxCostMicros === null;
  const isPlain =
    draft.cpuCount === null && draft.memoryMB === null && !draft.names && !draft.allow && draft.rules.length === 0;
  const hasTools = draft.ask && draft.services === draft.sandbox && draft.functions.length === 0;
  if (!hasUsual || !hasTools || (draft.sandbox && !isPlain)) return null;
  const option = (name: string, value: string | undefined | false) => (value ? [name, value] : []);
  return cli(
    'agent',
    'create',
    draft.name.trim() || 'NAME',
    ...option('--description', description),
    ...option('--model', model),
    ...option('--system', system),
    ...option('--template', draft.sandbox && draft.template.trim()),
    !draft.sandbox && '--no-sandbox',
    ...suggestions.flatMap((text) => ['--suggestion', text]),
  );
}

/** Python of OpenAI's own client, which talks to an agent as to a model. */
export function clientOf(origin: string, name: string): string {
  return [
    'import os',
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key=os.environ["CABANA_API_KEY"])`,
    'answer = client.chat.completions.create(',
    `    model=${JSON.stringify(`agent/${name || 'NAME'}`)},`,
    '    messages=[{"role": "user", "content": "Hello"}],',
    ')',
    'print(answer.choices[0].message.content)',
  ].join('\n');
}
