// The dialog that builds a template again, with what this tab knows of its last build.
import type { Template } from '../../api';
import { sourceOf } from './build';
import { NewTemplate } from './new-template';

interface Props {
  template: Template;
  templates: readonly Template[];
  onClose: () => void;
}

export function Again({ template, templates, onClose }: Props) {
  const source = sourceOf(template.templateID);
  const name = template.aliases[0] ?? template.templateID;
  return (
    <NewTemplate
      again={name}
      kind={source?.image ? 'image' : 'dockerfile'}
      templates={templates}
      initial={{
        name,
        cpuCount: template.cpuCount,
        memoryMB: template.memoryMB,
        diskMB: template.diskSizeMB,
        ...(source?.dockerfile ? { dockerfile: source.dockerfile } : {}),
        ...(source?.image ? { image: source.image } : {}),
        startCmd: source?.startCmd ?? '',
        readyCmd: source?.readyCmd ?? '',
      }}
      onClose={onClose}
    />
  );
}
